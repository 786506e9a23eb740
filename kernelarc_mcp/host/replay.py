"""Replaying the ledger: what each kind of row changes, and which rows cannot follow one another."""

from collections.abc import Iterable
from dataclasses import replace
from typing import Final

from kernelarc_guard.protocol import Result
from kernelarc_guard.reasons import check_outcome
from kernelarc_mcp.host.events import (
    SEED,
    AgentAdded,
    Baselined,
    Calibrated,
    CalibrationAsked,
    CalibrationDropped,
    Canary,
    Concluded,
    Confirmed,
    Created,
    Drafting,
    Event,
    Interrupted,
    Judging,
    ProfileAsked,
    ProfileDone,
    Quarantined,
    Registered,
    Remeasured,
    Screened,
    Settled,
    SpreadUpdated,
    Staked,
    Submitted,
    Suspected,
    Used,
)
from kernelarc_mcp.host.inconsistent import Inconsistent, expect
from kernelarc_mcp.host.plateau import CORRECT_REVERTS, draft_lens, first_lens, is_due
from kernelarc_mcp.host.profile_state import apply_profile
from kernelarc_mcp.host.state import (
    AgentStanding,
    Attempt,
    BaselineStep,
    CampaignState,
    RecordStep,
)
from kernelarc_mcp.host.totals import add_record, count_verdict, totals_of
from kernelarc_mcp.host.watching import apply_calibrated, apply_watch, drifted
from kernelarc_memory.conclusion import EVIDENCE, text_digest

__all__ = ["MAX_RESTARTS", "Inconsistent", "apply", "counts_as_death", "replay"]

MAX_RESTARTS: Final = 2
"""How often a judgement that the guard did not survive starts again."""


def replay(events: Iterable[Event]) -> CampaignState:
    """Return the state after all of a campaign's events; raise Inconsistent at the first bad one."""
    state = CampaignState()
    for event in events:
        apply(state, event)
    return state


def apply(state: CampaignState, event: Event) -> None:
    """Bring the state from one row to the next; raise Inconsistent where the row cannot be."""
    expect(event, event.seq == state.seq + 1, f"follows row {state.seq}")
    body = event.body
    expect(event, isinstance(body, Created) == (event.seq == 1), "only the first row creates")
    if state.drift_due:
        expect(event, isinstance(body, Suspected), f"{state.drift_due} had to be suspected first")
    if state.quarantine_due:
        expect(event, isinstance(body, Quarantined), "the device had to be quarantined first")
    if state.draft_due:
        expect(
            event,
            isinstance(body, Drafting) and event.agent == state.draft_due,
            f"{state.draft_due} had to be sent drafting first",
        )
    match body:
        case Created():
            _created(state, event, body)
        case AgentAdded():
            _agent_added(state, event, body)
        case Registered():
            _registered(state, event, body)
        case Submitted():
            _submitted(state, event, body)
        case Judging():
            _judging(state, event, body)
        case Screened():
            _screened(state, event, body)
        case Staked():
            _staked(state, event, body)
        case Confirmed():
            _confirmed(state, event, body)
        case Interrupted():
            _interrupted(state, event, body)
        case Settled():
            _settled(state, event, body)
        case Drafting():
            _drafting(state, event, body)
        case Calibrated():
            apply_calibrated(state, event, body)
            _seed_times(state, body.result)
        case Baselined():
            _baselined(state, event, body)
        case Concluded():
            _concluded(state, event, body)
        case (
            CalibrationAsked()
            | CalibrationDropped()
            | SpreadUpdated()
            | Suspected()
            | Remeasured()
            | Canary()
            | Quarantined()
        ):
            apply_watch(state, event, body)
        case Used():
            _used(state, event, body)
        case ProfileAsked() | ProfileDone():
            apply_profile(state, event, body)
    state.seq = event.seq
    state.head = event.hash
    touched = state.unsettled.get(event.submission)
    if touched is None and event.submission:
        touched = state.attempts.get(event.submission)
    if touched is not None:
        touched.last_seq = event.seq
        state.attempts.keep(touched)


def _agent(state: CampaignState, event: Event) -> AgentStanding:
    standing = state.agents.get(event.agent)
    if standing is None:
        raise Inconsistent(event.seq, f"{event.body.kind}: no agent {event.agent!r}")
    return standing


def _attempt(state: CampaignState, event: Event, ticket: str) -> Attempt:
    attempt = state.attempts.get(ticket)
    if attempt is None:
        raise Inconsistent(event.seq, f"{event.body.kind}: no submission {ticket!r}")
    return attempt


def _created(state: CampaignState, event: Event, body: Created) -> None:
    settings = body.settings
    expect(event, bool(settings.lenses), "names no lens")
    state.created, state.created_at = body, event.at
    for position, name in enumerate(settings.agents):
        state.agents[name] = AgentStanding(name, settings.share(position))
    wealth = settings.parameters.wealth
    if settings.pool:
        state.wealth[""] = wealth
    else:
        state.wealth = {name: wealth / len(settings.agents) for name in settings.agents}
    add_record(state, RecordStep(SEED, None, 1.0, None, 0, {}))


def _agent_added(state: CampaignState, event: Event, body: AgentAdded) -> None:
    pool = state.campaign.settings.pool
    expect(event, event.agent not in state.agents, "the agent is there already")
    expect(event, (body.attempts is None) == pool, "attempts of its own exactly without a pool")
    if not pool:
        # The newcomer's share comes out of the others': the campaign's error budget stays one.
        keep = len(state.agents) / (len(state.agents) + 1)
        given = sum(wealth * (1 - keep) for wealth in state.wealth.values())
        state.wealth = {name: wealth * keep for name, wealth in state.wealth.items()}
        state.wealth[event.agent] = given
        state.extra_attempts += body.attempts or 0
    state.agents[event.agent] = AgentStanding(event.agent, body.attempts)


def _registered(state: CampaignState, event: Event, body: Registered) -> None:
    standing = _agent(state, event)
    expect(event, not standing.lens, "the agent has a lens already")
    expected = first_lens(state)
    expect(event, body.lens == expected, f"the least used lens was {expected}")
    standing.lens = body.lens
    state.lens_use[body.lens] += 1


def _submitted(state: CampaignState, event: Event, body: Submitted) -> None:
    standing = _agent(state, event)
    ticket = event.submission
    expect(event, bool(standing.lens), "the agent has not registered")
    expect(event, ticket not in state.attempts and ticket not in ("", SEED), "ticket in use")
    expect(event, state.attempts_left(event.agent) > 0, "no attempt was left")
    expect(event, not state.limit_reached(event.at, event.agent), "a limit was reached")
    expect(event, body.number == state.used + 1, f"attempt number {state.used + 1} was next")
    before = state.attempts.requested(event.agent, body.request_id)
    expect(event, before is None, "the request was charged before")
    episode = standing.episode if standing.drafting else 0
    expect(event, body.episode == episode, f"the drafting episode was {episode}")
    expect(event, body.lens == standing.lens, f"the agent's lens was {standing.lens}")
    attempt = Attempt(
        ticket=ticket,
        agent=event.agent,
        number=body.number,
        at=event.at,
        request_id=body.request_id,
        proposal=body.proposal,
        lens=body.lens,
        episode=body.episode,
        key=body.key,
        found_dsl=body.found_dsl,
        solution_digest=body.solution_digest,
        parent=standing.branch,
    )
    state.attempts.add(attempt)
    state.unsettled[ticket] = attempt
    totals_of(state, body.lens).attempts += 1
    if body.key is not None:
        state.by_key.setdefault(body.key, ticket)
    standing.used += 1
    standing.purse.submitted(body.proposal.cost)
    standing.restoring = False


def _judging(state: CampaignState, event: Event, body: Judging) -> None:
    attempt = _attempt(state, event, event.submission)
    expect(event, attempt.state == "queued", f"the submission is {attempt.state}")
    expect(event, attempt.agent == event.agent, "the submission is another agent's")
    expect(event, not state.quarantined, "the device is quarantined")
    expect(event, state.suspect is None, "the record has to be measured again first")
    following = state.next_queued()
    expect(event, following == attempt.ticket, f"{following} was next")
    expect(event, body.against == state.record.ticket, f"the record is {state.record.ticket}")
    expect(event, body.stake == state.stake_of(attempt.agent), "the stake is another")
    attempt.state = "judging"
    attempt.claims += 1
    attempt.against = body.against
    attempt.machine = body.machine
    attempt.planned_stake = body.stake
    attempt.calibration = state.calibration
    attempt.screen = attempt.confirmation = None
    state.agents[attempt.agent].served = event.seq


def _concluded(state: CampaignState, event: Event, body: Concluded) -> None:
    attempt = _attempt(state, event, body.evidence)
    expect(event, attempt.agent == event.agent, "cites another agent's submission")
    expect(event, attempt.state == "done", f"{body.evidence} has no verdict yet")
    if not body.summary:
        return
    allowed = EVIDENCE[body.conclusion_kind]
    expect(event, attempt.verdict in allowed, f"{attempt.verdict} proves no {body.conclusion_kind}")
    expect(event, body.position == state.used, f"{state.used} attempts were charged")
    words = text_digest(body.summary, body.lesson)
    said = (event.agent, body.evidence, body.conclusion_kind, words)
    expect(event, said not in state.concluded, "the agent said it before")
    state.concluded[said] = event.seq


def _in_judgement(state: CampaignState, event: Event) -> Attempt:
    attempt = _attempt(state, event, event.submission)
    expect(event, attempt.state == "judging", f"the submission is {attempt.state}")
    return attempt


def _screened(state: CampaignState, event: Event, body: Screened) -> None:
    attempt = _in_judgement(state, event)
    expect(event, attempt.screen is None, "screened twice")
    expect(event, body.result.op == "screen", f"holds a {body.result.op}")
    attempt.screen = _without_pairs(body.result)
    _count_lease(state, body.result)
    if attempt.against == SEED:
        _seed_times(state, body.result)


def _staked(state: CampaignState, event: Event, body: Staked) -> None:
    attempt = _in_judgement(state, event)
    expect(
        event,
        attempt.screen is not None and attempt.screen.verdict is None,
        "the screen did not ask for a confirmation",
    )
    expect(event, attempt.reserved is None, "staked twice")
    share = state.share_of(attempt.agent)
    amount = state.stake_of(attempt.agent)
    expect(event, body.amount == amount, f"the stake was {amount!r}")
    left = state.wealth[share] - amount
    expect(event, left >= 0 and body.wealth == left, f"the wealth left is {left!r}")
    state.wealth[share] = left
    attempt.reserved = amount


def _confirmed(state: CampaignState, event: Event, body: Confirmed) -> None:
    attempt = _in_judgement(state, event)
    expect(event, attempt.reserved is not None, "nothing was staked")
    expect(event, attempt.confirmation is None, "confirmed twice")
    expect(event, body.result.op == "confirm", f"holds a {body.result.op}")
    expect(event, body.result.verdict is not None, "has no verdict")
    attempt.confirmation = _without_pairs(body.result)
    _count_lease(state, body.result)
    # Two judgements may have been open when the first of them showed the drift.
    if attempt.against == state.record.ticket and state.suspect is None:
        if drifted(state, attempt, body.result):
            state.drift_due = attempt.against


def _interrupted(state: CampaignState, event: Event, body: Interrupted) -> None:
    attempt = _in_judgement(state, event)
    if body.cause == "record_moved":
        expect(event, attempt.against != state.record.ticket, "the record had not moved")
        expect(
            event,
            attempt.confirmation is not None and attempt.confirmation.verdict == "KEEP",
            "only a KEEP is compared again",
        )
        _return_stake(state, attempt)
    if body.cause == "record_drifted":
        kept = attempt.confirmation is not None and attempt.confirmation.verdict == "KEEP"
        expect(event, kept, "only a KEEP is compared again")
        suspect = state.suspect is not None and state.suspect.record == attempt.against
        expect(event, suspect and not attempt.drift_repeat, "the record was not suspected now")
        attempt.drift_repeat = True
        _return_stake(state, attempt)
    attempt.deaths += counts_as_death(attempt, body.cause)
    # Otherwise a stake that was out is lost: the confirmation may have been seen.
    attempt.reserved = None
    attempt.state = "queued"


def counts_as_death(attempt: Attempt, cause: str) -> bool:
    """Say whether a cut-off judgement counts towards `guard_lost`.

    A refusal is the machine's fault, unless the screen had passed: then each one costs a stake, and
    what was possible a moment ago is not possible with this candidate.
    """
    refused_late = cause == "guard_refused" and attempt.reserved is not None
    return refused_late or cause in ("guard_died", "record_failed", "builder_lost")


def _settled(state: CampaignState, event: Event, body: Settled) -> None:
    attempt = _attempt(state, event, event.submission)
    standing = _agent(state, event)
    expect(event, attempt.agent == event.agent, "the submission is another agent's")
    expect(event, attempt.state != "done", "settled twice")
    try:
        check_outcome(body.verdict, body.reason, body.stage)
    except ValueError as error:
        raise Inconsistent(event.seq, f"settled: {error}") from error
    expect(
        event,
        attempt.state == "judging" or body.stage in ("envelope", "duplicate"),
        "only a judgement gives this verdict",
    )
    _check_verdict(event, attempt, body)
    state.judged += attempt.state == "judging"
    attempt.state = "done"
    attempt.verdict, attempt.reason, attempt.stage = body.verdict, body.reason, body.stage
    attempt.detail, attempt.duplicate_of = body.detail, body.duplicate_of
    attempt.speedup, attempt.lower = body.speedup, body.lower
    attempt.settled_at, attempt.settled_seq = event.at, event.seq
    standing.verdicts[body.verdict] += 1
    del state.unsettled[attempt.ticket]
    count_verdict(state, attempt, body.verdict)
    _forget_unjudged(state, attempt)
    if body.verdict == "KEEP":
        expect(event, attempt.against == state.record.ticket, "the record had moved")
        _move_record(state, event, attempt)
        if state.calibration is not None:
            state.spread_due = attempt.ticket
        _return_stake(state, attempt)
    attempt.reserved = None
    _count_plateau(standing, attempt, body)
    if is_due(state, standing.name):
        state.draft_due = standing.name


def _check_verdict(event: Event, attempt: Attempt, body: Settled) -> None:
    """Hold the settled verdict against the guard's answers; `guard_lost` is the host's own."""
    result = attempt.confirmation or attempt.screen
    if attempt.state != "judging":
        return
    if body.reason == "guard_lost":
        expect(event, attempt.deaths >= MAX_RESTARTS, "the guard may be restarted first")
        return
    expect(
        event,
        result is not None
        and (body.verdict, body.reason, body.stage)
        == (result.verdict, result.reason, result.stage),
        "the guard said "
        + (f"{result.verdict} {result.reason} at {result.stage}" if result else "nothing"),
    )


def _forget_unjudged(state: CampaignState, attempt: Attempt) -> None:
    """A source the guard never judged may be sent again; a binary it judged is remembered."""
    result = attempt.confirmation or attempt.screen
    if result is None and attempt.reason != "guard_lost":
        if attempt.key is not None and state.by_key.get(attempt.key) == attempt.ticket:
            del state.by_key[attempt.key]
        return
    for answer in (attempt.screen, attempt.confirmation):
        if answer is not None and answer.binary is not None:
            state.binaries.setdefault(answer.binary, attempt.ticket)


def _move_record(state: CampaignState, event: Event, attempt: Attempt) -> None:
    result = attempt.confirmation
    assert result is not None and result.decision is not None
    expect(event, result.anchored is not None, "a KEEP comes with its ratio to the seed")
    assert result.anchored is not None
    over_seed = result.anchored.candidate
    times = {w.uuid: w.candidate_us for w in result.workloads if w.candidate_us is not None}
    step = RecordStep(
        attempt.ticket,
        attempt.agent,
        over_seed.ratio,
        result.decision.lower,
        attempt.number,
        times,
        gain=result.decision.speedup,
        over_seed=over_seed,
    )
    add_record(state, step)
    standing = state.agents[attempt.agent]
    standing.best = max(over_seed.ratio, standing.best or 0.0)


def _return_stake(state: CampaignState, attempt: Attempt) -> None:
    if attempt.reserved is not None:
        state.wealth[state.share_of(attempt.agent)] += attempt.reserved
        attempt.reserved = None


def _count_plateau(standing: AgentStanding, attempt: Attempt, body: Settled) -> None:
    if body.verdict == "REJECT":
        return
    is_draft = standing.drafting and attempt.episode == standing.episode
    correct = body.verdict in ("KEEP", "ACCEPT") or body.reason in CORRECT_REVERTS
    if body.verdict in ("KEEP", "ACCEPT") or (is_draft and correct):
        standing.branch = attempt.ticket
        standing.restoring = False
    else:
        standing.restoring = True
    if is_draft:
        standing.drafts += 1
    if is_draft or body.verdict == "KEEP":
        # A breakthrough ends a plateau even where it was submitted before the draft was due.
        standing.drafting = False
        standing.r = 0
    else:
        standing.r += 1


def _drafting(state: CampaignState, event: Event, body: Drafting) -> None:
    standing = _agent(state, event)
    expect(event, state.draft_due == event.agent, "the plateau was not reached")
    expect(event, body.episode == standing.episode + 1, "episodes are numbered")
    expected = draft_lens(state, standing)
    expect(event, body.lens == expected, f"the least used other lens was {expected}")
    standing.drafting = True
    standing.episode = body.episode
    standing.lens = body.lens
    state.lens_use[body.lens] += 1
    state.draft_due = ""


def _used(state: CampaignState, event: Event, body: Used) -> None:
    usage = _agent(state, event).usage
    expect(event, body.run not in usage.runs, f"run {body.run} was recorded before")
    usage.add(body)


def _baselined(state: CampaignState, event: Event, body: Baselined) -> None:
    expect(event, body.name not in state.baselined, "judged twice")
    asked = event.seq - 1 if body.asked_after is None else body.asked_after
    expect(event, asked < event.seq, f"asked after row {asked}, which comes later")
    state.baselined.add(body.name)
    decision = body.result.decision if body.result is not None else None
    speedup = None if decision is None else decision.speedup
    ran = [] if body.result is None else body.result.workloads
    times = {w.uuid: w.candidate_us for w in ran if w.candidate_us is not None}
    state.baselines.append(BaselineStep(body.name, speedup, body.detail, times))
    if body.result is not None:
        _seed_times(state, body.result)


def _seed_times(state: CampaignState, result: Result) -> None:
    """Take the seed's times from the first comparison that measured it."""
    times = {w.uuid: w.record_us for w in result.workloads if w.record_us is not None}
    first = state.records[0]
    if not first.microseconds:
        state.records[0] = replace(first, microseconds=times)


def _count_lease(state: CampaignState, result: Result) -> None:
    if result.lease is not None:
        state.device_ns += max(0, result.lease.to_ns - result.lease.from_ns)


def _without_pairs(result: Result) -> Result:
    return result.model_copy(update={"pairs": []})
