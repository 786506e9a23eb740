"""What the rows of a judgement change, and which of them cannot be; several judgements may be open."""

from dataclasses import replace
from typing import Final, Literal, get_args

from kernelarc_guard.protocol import Result
from kernelarc_mcp.host.events import (
    SEED,
    Confirmed,
    Event,
    Interrupted,
    Judging,
    Screened,
    Staked,
)
from kernelarc_mcp.host.inconsistent import Inconsistent, expect
from kernelarc_mcp.host.state import Attempt, CampaignState
from kernelarc_mcp.host.watching import drifted

MAX_RESTARTS: Final = 2
"""How often a judgement that the guard did not survive starts again."""
Repeat = Literal["record_moved", "record_drifted", "record_suspect", "device_quarantined"]
REPEATS: Final[tuple[Repeat, ...]] = get_args(Repeat)
"""Causes of an interruption that cost nothing: a stake that was out comes back."""


def attempt_of(state: CampaignState, event: Event, ticket: str) -> Attempt:
    """Return a submission; Inconsistent where there is none."""
    attempt = state.attempts.get(ticket)
    if attempt is None:
        raise Inconsistent(event.seq, f"{event.body.kind}: no submission {ticket!r}")
    return attempt


def judging(state: CampaignState, event: Event, body: Judging) -> None:
    """Claim a submission: the next in line, against the record."""
    attempt = attempt_of(state, event, event.submission)
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
    attempt.claimed_seq = event.seq
    attempt.against = body.against
    attempt.machine = body.machine
    attempt.planned_stake = body.stake
    attempt.calibration = state.calibration
    attempt.screen = attempt.confirmation = None
    state.agents[attempt.agent].served = event.seq


def _in_judgement(state: CampaignState, event: Event) -> Attempt:
    attempt = attempt_of(state, event, event.submission)
    expect(event, attempt.state == "judging", f"the submission is {attempt.state}")
    return attempt


def screened(state: CampaignState, event: Event, body: Screened) -> None:
    """Take a screen's answer."""
    attempt = _in_judgement(state, event)
    expect(event, attempt.screen is None, "screened twice")
    expect(event, body.result.op == "screen", f"holds a {body.result.op}")
    attempt.screen = _without_pairs(body.result)
    _count_lease(state, body.result)
    if attempt.against == SEED:
        seed_times(state, body.result)


def staked(state: CampaignState, event: Event, body: Staked) -> None:
    """Reserve the stake of a confirmation of what is promising."""
    attempt = _in_judgement(state, event)
    expect(
        event,
        attempt.screen is not None and attempt.screen.verdict is None,
        "the screen did not ask for a confirmation",
    )
    expect(event, attempt.reserved is None, "staked twice")
    stands = has_to_repeat(state, attempt)
    expect(event, stands is None, f"nothing is staked: {stands}")
    share = state.share_of(attempt.agent)
    amount = state.stake_of(attempt.agent)
    expect(event, body.amount == amount, f"the stake was {amount!r}")
    left = state.wealth[share] - amount
    expect(event, left >= 0 and body.wealth == left, f"the wealth left is {left!r}")
    state.wealth[share] = left
    attempt.reserved = amount


def confirmed(state: CampaignState, event: Event, body: Confirmed) -> None:
    """Take a confirmation's answer; it may show that the record has drifted."""
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


def interrupted(state: CampaignState, event: Event, body: Interrupted) -> None:
    """Queue a submission again."""
    attempt = _in_judgement(state, event)
    if body.cause in REPEATS:
        due = has_to_repeat(state, attempt)
        expect(event, body.cause == due, f"what stood against it was {due or 'nothing'}")
        expect(event, _kept(attempt) or _promising(attempt), "only what won is compared again")
        if body.cause == "record_drifted":
            attempt.doubted = attempt.against
        return_stake(state, attempt)
    attempt.deaths += counts_as_death(attempt, body.cause)
    # Otherwise a stake that was out is lost: the confirmation may have been seen.
    attempt.reserved = None
    attempt.state = "queued"


def has_to_repeat(state: CampaignState, attempt: Attempt) -> Repeat | None:
    """Return why what an open judgement has won so far must be won again, uncharged; None: it counts.

    A promising screen is asked before its stake and a KEEP before it is settled: neither is spent
    on a record that is none any more, and neither rests on what is doubted itself. With one judgement
    at a time only a record that its own confirmation shows to drift comes to this; with several, others
    settle, and canaries end, meanwhile. What lost (REVERT, ACCEPT) stands, compared with the record at its claim.
    """
    if state.quarantined:
        return "device_quarantined"
    suspect = state.suspect is not None and state.suspect.record == attempt.against
    if suspect and not _kept(attempt):
        return "record_suspect"
    if suspect and not attempt.doubted:
        return "record_drifted"
    return None if attempt.against == state.record.ticket else "record_moved"


def _kept(attempt: Attempt) -> bool:
    return attempt.confirmation is not None and attempt.confirmation.verdict == "KEEP"


def _promising(attempt: Attempt) -> bool:
    """Say whether a screen asks for a confirmation and nothing is staked on that yet."""
    screen = attempt.screen
    return screen is not None and screen.verdict is None and attempt.reserved is None


def counts_as_death(attempt: Attempt, cause: str) -> bool:
    """Say whether a cut-off judgement counts towards `guard_lost`.

    A refusal is the machine's fault, unless the screen had passed: then each one costs a stake, and
    what was possible a moment ago is not possible with this candidate.
    """
    refused_late = cause == "guard_refused" and attempt.reserved is not None
    return refused_late or cause in ("guard_died", "record_failed", "builder_lost")


def return_stake(state: CampaignState, attempt: Attempt) -> None:
    """Give back what is reserved, if anything is."""
    if attempt.reserved is not None:
        state.wealth[state.share_of(attempt.agent)] += attempt.reserved
        attempt.reserved = None


def seed_times(state: CampaignState, result: Result) -> None:
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
