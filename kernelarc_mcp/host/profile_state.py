"""Which profiles were asked for and what they gave: a function of the ledger's rows."""

from dataclasses import replace
from typing import Final

from kernelarc_mcp.host.events import Event, ProfileAsked, ProfileDone
from kernelarc_mcp.host.inconsistent import expect
from kernelarc_mcp.host.plateau import CORRECT_REVERTS
from kernelarc_mcp.host.profile_step import ProfileStep
from kernelarc_mcp.host.state import Attempt, CampaignState

MOST_TRIES: Final = 2
"""How often a profile that the guard could not make may be asked for."""
MOST_WAITING: Final = 2
"""Profiles of one agent that may wait at a time: each takes a turn between two judgements."""


def unfit(attempt: Attempt) -> str:
    """Return why a submission cannot be profiled, or an empty string.

    Only what was judged right is run once more, outside of a judgement.
    """
    if attempt.state != "done":
        return f"{attempt.ticket} is {attempt.state}; it can be profiled once it has a verdict"
    if attempt.verdict in ("KEEP", "ACCEPT") or attempt.reason in CORRECT_REVERTS:
        return ""
    return (
        f"{attempt.ticket} was not judged right ({attempt.verdict} {attempt.reason}):"
        " only a right submission can be profiled"
    )


def pending(state: CampaignState) -> ProfileStep | None:
    """Return the profile that was asked for first and is not done, or None."""
    return next((step for step in state.profiles.values() if not step.done), None)


def waiting(state: CampaignState, agent: str) -> list[ProfileStep]:
    """Return the profiles an agent asked for that are not done."""
    return [step for step in state.profiles.values() if step.agent == agent and not step.done]


def apply_profile(state: CampaignState, event: Event, body: ProfileAsked | ProfileDone) -> None:
    """Bring the state over a row about a profile; raise Inconsistent where it cannot be."""
    attempt = state.attempts.get(event.submission)
    expect(event, attempt is not None, f"no submission {event.submission!r}")
    assert attempt is not None
    expect(event, attempt.agent == event.agent, "the submission is another agent's")
    key = (event.submission, body.workload)
    before = state.profiles.get(key)
    if isinstance(body, ProfileDone):
        expect(event, before is not None and not before.done, "nobody asked for it")
        assert before is not None
        named = body.answer is None or body.answer.profile.workload == body.workload
        expect(event, named, "it is a profile on another workload")
        once = body.answer is None or body.lease is None
        expect(event, once, "an answer tells its own lease")
        step = replace(before, done=True, answer=body.answer, lease=body.held, detail=body.detail)
        state.profiles[key] = step
        state.device_ns += step.device_ns
        state.agents[event.agent].profile_ns += step.device_ns
        return
    uuids = [workload.uuid for workload in state.campaign.problem.workloads]
    expect(event, body.workload in uuids, f"no workload {body.workload!r}")
    expect(event, not unfit(attempt), unfit(attempt))
    expect(event, not state.limit_reached(event.at, event.agent), "a limit was reached")
    record = state.record.ticket
    expected = "" if record == event.submission else record
    expect(event, body.against == expected, "it is compared with what was not the record")
    again = before is not None and before.done and before.answer is None
    expect(event, before is None or again, "it was asked for already")
    tries = 1 if before is None else before.tries + 1
    expect(event, tries <= MOST_TRIES, f"it was tried {MOST_TRIES} times")
    few = len(waiting(state, event.agent)) < MOST_WAITING
    expect(event, few, f"{event.agent} has {MOST_WAITING} profiles waiting already")
    # Put last: what was asked for first is done first.
    state.profiles.pop(key, None)
    state.profiles[key] = ProfileStep(
        event.submission, event.agent, body.workload, body.against, tries
    )
