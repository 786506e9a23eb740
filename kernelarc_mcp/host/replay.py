"""Replaying the ledger: what each kind of row changes, and which rows cannot follow one another."""

from collections.abc import Iterable

from kernelarc_guard.reasons import check_outcome
from kernelarc_mcp.host import judgement_rows as rows
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
    ExtraMeasured,
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
from kernelarc_mcp.host.extra_state import apply_extra, forget_extra, owe_extra
from kernelarc_mcp.host.inconsistent import Inconsistent, expect
from kernelarc_mcp.host.judgement_rows import MAX_RESTARTS, counts_as_death
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
from kernelarc_mcp.host.watching import apply_calibrated, apply_watch
from kernelarc_memory.conclusion import EVIDENCE, text_digest

__all__ = ["MAX_RESTARTS", "Inconsistent", "apply", "counts_as_death", "replay"]


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
            rows.judging(state, event, body)
        case Screened():
            rows.screened(state, event, body)
        case Staked():
            rows.staked(state, event, body)
        case Confirmed():
            rows.confirmed(state, event, body)
        case Interrupted():
            rows.interrupted(state, event, body)
        case Settled():
            _settled(state, event, body)
        case Drafting():
            _drafting(state, event, body)
        case Calibrated():
            apply_calibrated(state, event, body)
            rows.seed_times(state, body.result)
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
            if isinstance(body, Remeasured) and body.withdrawn:
                forget_extra(state, body.record)
        case Used():
            _used(state, event, body)
        case ExtraMeasured():
            apply_extra(state, event, body)
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


def _concluded(state: CampaignState, event: Event, body: Concluded) -> None:
    attempt = rows.attempt_of(state, event, body.evidence)
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


def _settled(state: CampaignState, event: Event, body: Settled) -> None:
    attempt = rows.attempt_of(state, event, event.submission)
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
        expect(event, not rows.has_to_repeat(state, attempt), "it had to be compared again")
        _move_record(state, event, attempt)
        if state.calibration is not None:
            state.spread_due = attempt.ticket
        owe_extra(state, attempt.ticket)
        rows.return_stake(state, attempt)
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
        rows.seed_times(state, body.result)
