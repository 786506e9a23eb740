"""Asking for a profile, making it, and showing it to the agent whose submission it is of."""

from dataclasses import dataclass
from typing import Final

from kernelarc_guard.inquiries import ProfileRequest
from kernelarc_guard.profile_model import Bottleneck, printable
from kernelarc_mcp.host.campaign import Campaign
from kernelarc_mcp.host.errors import BadRequest, BudgetSpent, NotAllowed
from kernelarc_mcp.host.events import ProfileAsked, ProfileDone
from kernelarc_mcp.host.profile_state import MOST_TRIES, MOST_WAITING, pending, unfit, waiting
from kernelarc_mcp.host.profile_step import ProfileStep
from kernelarc_mcp.host.state import Attempt
from kernelarc_mcp.host.submit import solution_of
from kernelarc_mcp.host.tickets import own_attempt, standing_of
from kernelarc_mcp.profile_text import profile_lines
from kernelarc_mcp.profile_views import ProfileView

FOLDER: Final = "profiles"
MOST_CHARACTERS: Final = 1_990
"""Of a whole answer, as JSON: what an agent reads again and again must be short."""
_STEP: Final = 60
_DETAIL: Final = 800
"""Characters of why there is none, each of which JSON may write as two."""
_NEXT: Final[dict[Bottleneck, str]] = {
    "launch-bound": "Fuse kernels or give each more work; the roofs do not matter yet.",
    "bandwidth-bound": "Move fewer bytes: fuse, reuse what was loaded, use narrower types.",
    "matrix-bound": "It is where it should be: look at the tail, the epilogue and the order of tiles.",
    "arithmetic-bound": "Use matrix units where they fit, or compute less per element.",
    "latency-bound": "Have more in flight: more loads per thread, more stages, higher occupancy.",
    "unknown": "Decide by what you know of the kernel; no counter names a bottleneck.",
}


@dataclass(frozen=True)
class ProfilePlan:
    """A profile that is due, with the request that makes it."""

    ticket: str
    agent: str
    workload: str
    request: ProfileRequest


def ask(campaign: Campaign, agent: str, submission: str, workload: str = "") -> ProfileView:
    """Ask for a profile of an own submission, or return the one that is there.

    The workload defaults to the one on which it took longest. NotAllowed where it cannot be
    profiled, BudgetSpent where the campaign is over.
    """
    with campaign.journal.writing() as writer:
        state = writer.state
        standing_of(state, agent)
        attempt = own_attempt(state, agent, submission)
        chosen = workload or longest(campaign, times_of(attempt))
        uuids = [one.uuid for one in campaign.problem.workloads]
        if chosen not in uuids:
            known = ", ".join(uuids[:20])
            raise BadRequest(f"workload: {chosen[:100]!r} is none of {known}")
        step = state.profiles.get((submission, chosen))
        if step is None or (step.done and step.answer is None and step.tries < MOST_TRIES):
            if why := unfit(attempt):
                raise NotAllowed(why)
            if len(earlier := waiting(state, agent)) >= MOST_WAITING:
                named = ", ".join(f"{one.ticket} on {one.workload}" for one in earlier)
                raise NotAllowed(f"{MOST_WAITING} profiles may wait at a time; yours: {named}")
            if limit := state.limit_reached(writer.at, agent):
                raise BudgetSpent(f"the campaign is over: {limit}; reading stays allowed")
            record = state.record.ticket
            against = "" if record == submission else record
            asked = ProfileAsked(workload=chosen, against=against)
            writer.append(asked, agent, submission)
            step = state.profiles[(submission, chosen)]
        return view_of(step, ended=bool(writer.state.limit_reached(writer.at, agent)))


def look(campaign: Campaign, agent: str, submission: str, workload: str) -> ProfileView:
    """Return a profile as it stands now."""
    with campaign.journal.reading() as state:
        own_attempt(state, agent, submission)
        ended = bool(state.limit_reached(campaign.journal.now(), agent))
        return view_of(state.profiles[(submission, workload)], ended=ended)


def due(campaign: Campaign, cache_dir: str) -> ProfilePlan | None:
    """Return the profile that is to be made next, or None."""
    with campaign.journal.reading() as state:
        step = pending(state)
        if step is None:
            return None
        settings = campaign.settings
        attempt = state.attempts[step.ticket]
        index = [one.uuid for one in campaign.problem.workloads].index(step.workload)
        record = solution_of(campaign, state, step.against) if step.against else None
        request = ProfileRequest(
            id=f"{step.ticket}-profile",
            device=settings.device,
            cache_dir=cache_dir,
            schedule=settings.schedule,
            problem=campaign.problem,
            candidate=solution_of(campaign, state, step.ticket),
            record=record,
            workload=step.workload,
            reports=str(campaign.folder / FOLDER / f"{step.ticket}-{index}"),
            call_us=times_of(attempt).get(step.workload),
            rulers=None if state.calibration is None else state.calibration.rulers,
        )
        return ProfilePlan(step.ticket, step.agent, step.workload, request)


def drop_late(campaign: Campaign, machine: str) -> None:
    """Give up the profiles that wait where the campaign's time is over; each is a row."""
    journal = campaign.journal
    with journal.reading() as state:
        if pending(state) is None or not state.limit_reached(journal.now()):
            return
    with journal.writing() as writer:
        limit = writer.state.limit_reached(writer.at)
        while limit and (step := pending(writer.state)) is not None:
            said = f"It was not profiled: the campaign is over: {limit}."
            body = ProfileDone(workload=step.workload, answer=None, machine=machine, detail=said)
            writer.append(body, step.agent, step.ticket)


def done(campaign: Campaign, plan: ProfilePlan, body: ProfileDone) -> None:
    """Store what the guard answered, or did not, which charges the device's time."""
    with campaign.journal.writing() as writer:
        writer.append(body, plan.agent, plan.ticket)


def longest(campaign: Campaign, times: dict[str, float]) -> str:
    """Return the workload that took longest, the first where none was timed."""
    uuids = [one.uuid for one in campaign.problem.workloads]
    return max(uuids, key=lambda uuid: times.get(uuid, 0.0))


def times_of(attempt: Attempt) -> dict[str, float]:
    """Return what a call took on each workload, microseconds, in the last comparison that timed it."""
    results = [one for one in (attempt.screen, attempt.confirmation) if one is not None]
    found: dict[str, float] = {}
    for result in results:
        found |= {w.uuid: w.candidate_us for w in result.workloads if w.candidate_us}
    return found


def view_of(step: ProfileStep, *, ended: bool = False) -> ProfileView:
    """Return a profile as its agent sees it, short enough whatever it holds.

    `ended`: the campaign is over, so that none can be asked for any more.
    """
    answer = step.answer
    if not step.done:
        said = "Call profile_candidate again with the same submission and workload."
        return _plain(step, "queued", "It is waiting for the device.", said)
    if answer is None:
        again = step.tries < MOST_TRIES and not ended
        said = "Call it once more, or go on without." if again else "Go on without a profile."
        return _plain(step, "failed", printable(step.detail, _DETAIL), said)
    limit = MOST_CHARACTERS
    while True:
        text = "\n".join(profile_lines(answer.profile, limit))
        view = ProfileView(
            submission=step.ticket,
            workload=step.workload,
            state="done",
            bottleneck=answer.profile.bottleneck,
            profile=text,
            device_seconds=_seconds(step),
            reports=answer.files,
            next_step=_NEXT[answer.profile.bottleneck],
        )
        if len(view.model_dump_json()) <= MOST_CHARACTERS or limit <= _STEP:
            return view
        limit -= _STEP


def _plain(step: ProfileStep, kind: str, text: str, said: str) -> ProfileView:
    return ProfileView.model_validate(
        {
            "submission": step.ticket,
            "workload": step.workload,
            "state": kind,
            "bottleneck": None,
            "profile": text,
            "device_seconds": _seconds(step),
            "reports": [],
            "next_step": said,
        }
    )


def _seconds(step: ProfileStep) -> float:
    return round(step.device_ns / 1e9, 1)
