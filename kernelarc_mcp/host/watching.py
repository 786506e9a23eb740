"""What the ledger's rows say about the device and about records that may have drifted; pure."""

import math
from typing import TypeGuard

from kernelarc_guard.canary import LEVEL, alarm, p_greater, p_two_sided
from kernelarc_guard.decide import Calibration, respread
from kernelarc_guard.pairs import block_values, pair_value
from kernelarc_guard.protocol import Result
from kernelarc_guard.ratios import Ratio, ratio_of, student
from kernelarc_guard.words import times
from kernelarc_mcp.host.events import (
    SEED,
    Calibrated,
    CalibrationAsked,
    CalibrationDropped,
    Canary,
    Event,
    Quarantined,
    Remeasured,
    SpreadUpdated,
    Suspected,
)
from kernelarc_mcp.host.inconsistent import expect
from kernelarc_mcp.host.state import Attempt, CampaignState, CanaryStep
from kernelarc_mcp.host.totals import withdraw_record
from kernelarc_mcp.host.watch_events import Spread

DRIFT_LEVEL = 0.01
"""Chance that noise alone makes a record suspect in one confirmation."""
SUSPECT = ("record_drifted", "record_failed")


def shortfall(published: Ratio, now: Ratio, band: float) -> float | None:
    """Return by how much (percent) a record fails its published ratio, where more than the band.

    Shown, that is: the lower t-bound of the difference of both measurements exceeds the band.
    """
    missing = published.mean_percent - now.mean_percent
    error = math.hypot(published.error_percent, now.error_percent)
    lower = missing - student(DRIFT_LEVEL, min(published.pairs, now.pairs) - 1) * error
    return missing if lower > band else None


def drifted(state: CampaignState, attempt: Attempt, result: Result) -> str:
    """Return in a sentence how a confirmation shows that its record has drifted, or nothing."""
    step = state.step_of(attempt.against)
    if step is None or step.over_seed is None or step.withdrawn:
        return ""
    if result.anchored is None or result.anchored.record is None:
        return ""
    now = result.anchored.record
    missing = shortfall(step.over_seed, now, state.campaign.settings.parameters.band)
    if missing is None:
        return ""
    return (
        f"{step.ticket} was published at {step.over_seed.ratio:.4f} times the seed and measures"
        f" {now.ratio:.4f} now ({times(-missing)} of that)."
    )


def values_of(state: CampaignState, result: Result) -> list[float]:
    """Return the pair values (percent) of a comparison."""
    weights = state.campaign.problem.weights()
    return [
        pair_value([(block.record, block.candidate) for block in pair.blocks], weights)
        for pair in result.pairs
    ]


def withdrawal(state: CampaignState, ticket: str, result: Result | None) -> str:
    """Return why a record that was measured again is withdrawn, or an empty string."""
    if result is None:
        return ""
    if result.verdict is not None:
        return "record_failed"
    step = state.step_of(ticket)
    if step is None or step.over_seed is None:
        return ""
    now = ratio_of(values_of(state, result))
    band = state.campaign.settings.parameters.band
    return "record_drifted" if shortfall(step.over_seed, now, band) is not None else ""


def p_value_of(state: CampaignState, canary: Canary) -> float | None:
    """Return the p-value that a canary's pairs have; None where it measured nothing."""
    if canary.result is None or canary.result.verdict is not None:
        return None
    values = values_of(state, canary.result)
    if canary.sort == "same":
        return p_two_sided(values)
    return p_greater([-value for value in values])


def planted_by(planned: float, result: Result | None) -> float:
    """Return the delay (percent) of a canary: the planned one, or what the guard planted at least."""
    return planned if result is None or result.planted is None else result.planted


def canary_due(state: CampaignState) -> bool:
    """Say whether the campaign's rate asks for a canary now."""
    rate = state.campaign.settings.canary_rate
    # A hair above, so that 10 judged submissions are 1 whole canary at a rate of 0.1.
    return state.calibration is not None and len(state.canaries) < int(state.judged * rate + 1e-9)


def respread_by(state: CampaignState, result: Result | None) -> Calibration:
    """Return the calibration with the spread of pairs of the record with itself.

    It is the one there is where nothing was measured.
    """
    calibration = state.calibration
    assert calibration is not None
    if not _spreads(result):
        return calibration
    weights = state.campaign.problem.weights()
    pairs = [
        block_values([(block.record, block.candidate) for block in pair.blocks], weights)
        for pair in result.pairs
    ]
    return respread(calibration, pairs, state.campaign.settings.parameters)


def respread_by_canary(state: CampaignState, canary: Canary) -> Calibration | None:
    """Return the same by a canary's pairs; None where they are not the record's own, or failed."""
    if canary.sort != "same" or not _spreads(canary.result):
        return None
    return respread_by(state, canary.result)


def spread_of(told: Calibration | SpreadUpdated) -> Spread:
    """Return what is planned with."""
    return Spread(sd_screen=told.sd_screen, sd_confirm=told.sd_confirm, resolution=told.resolution)


def _spreads(result: Result | None) -> TypeGuard[Result]:
    """Say whether a comparison's pairs say how far pairs lie apart."""
    return result is not None and result.verdict is None and len(result.pairs) >= 2


def apply_watch(
    state: CampaignState,
    event: Event,
    body: CalibrationAsked
    | CalibrationDropped
    | SpreadUpdated
    | Suspected
    | Remeasured
    | Canary
    | Quarantined,
) -> None:
    """Bring the state over a row about device, calibration or record."""
    match body:
        case CalibrationAsked():
            state.calibration_asked = body
        case CalibrationDropped():
            asked = state.calibration_asked is not None and state.calibration is not None
            expect(event, asked, "nobody asked for another calibration")
            state.calibration_asked = None
        case SpreadUpdated():
            _spread_updated(state, event, body)
        case Suspected():
            expect(event, state.suspect is None, "a record is suspect already")
            expect(event, body.record == state.record.ticket != SEED, "only the record is suspect")
            drift_due = state.drift_due == body.record
            expect(event, (body.reason == "record_drifted") == drift_due, "no drift was shown")
            state.suspect, state.drift_due = body, ""
        case Remeasured():
            _remeasured(state, event, body)
        case Canary():
            _canary(state, event, body)
        case Quarantined():
            expect(event, bool(state.quarantine_due), "the canaries were no alarm")
            state.quarantined, state.quarantine_due = body.detail, ""


def apply_calibrated(state: CampaignState, event: Event, body: Calibrated) -> None:
    """Take over a calibration: an unbiased one releases the device."""
    calibration = body.result.calibration
    expect(event, calibration is not None, "holds no calibration")
    assert calibration is not None
    again = state.calibration is None or state.calibration_asked is not None
    expect(event, again, "nobody asked for another calibration")
    state.calibration, state.calibration_machine = calibration, body.description
    asked = state.calibration_asked
    # One that was asked for while another ran is still due.
    if asked is None or calibration.nurseries == [asked.pairs] * asked.nurseries:
        state.calibration_asked = None
    state.spread_due = ""
    state.canaries_before = len(state.canaries)
    if not calibration.biased:
        state.quarantined = ""


def _spread_updated(state: CampaignState, event: Event, body: SpreadUpdated) -> None:
    due = state.calibration is not None and bool(state.spread_due)
    expect(event, due, "the record has not moved since its spread was measured")
    expect(event, body.record == state.spread_due, f"the record is {state.spread_due}")
    found = respread_by(state, body.result)
    expect(event, spread_of(body) == spread_of(found), f"its pairs give {found.sd_confirm} %")
    state.calibration, state.spread_due = found, ""


def _remeasured(state: CampaignState, event: Event, body: Remeasured) -> None:
    suspect = state.suspect
    expect(event, suspect is not None and suspect.record == body.record, "it is not suspect")
    assert suspect is not None
    expected = withdrawal(state, body.record, body.result)
    expect(event, body.withdrawn == expected, f"its pairs say {expected or 'that it stands'}")
    state.suspect = None
    if not body.withdrawn:
        return
    detail = suspect.detail if suspect.reason == body.withdrawn else body.detail
    withdraw_record(state, body.record, body.withdrawn, detail)
    state.spread_due = state.record.ticket
    for agent in state.agents.values():
        own = [s.speedup for s in state.records if s.agent == agent.name and not s.withdrawn]
        agent.best = max(own, default=None)
        if agent.branch == body.record:
            agent.branch, agent.restoring = _own_branch(state, agent.name), True


def _own_branch(state: CampaignState, agent: str) -> str:
    """Return an agent's last KEEP or ACCEPT that stands, else the seed: never another's source."""
    gone = {step.ticket for step in state.records if step.withdrawn}
    own = [
        attempt
        for attempt in state.attempts.values()
        if attempt.agent == agent
        and attempt.verdict in ("KEEP", "ACCEPT")
        and attempt.ticket not in gone
    ]
    return max(own, key=lambda attempt: attempt.settled_seq).ticket if own else SEED


def _canary(state: CampaignState, event: Event, body: Canary) -> None:
    expect(event, canary_due(state), "none was due")
    expect(event, body.record == state.record.ticket, f"the record is {state.record.ticket}")
    expect(event, (body.planted > 0) == (body.sort == "delayed"), "a delay is planted, or none")
    planted = planted_by(body.planted, body.result)
    expect(event, body.planted == planted, f"{planted!r} % were planted")
    p_value = p_value_of(state, body)
    expect(event, body.p_value == p_value, f"its pairs have the p-value {p_value!r}")
    if body.spread is not None:
        found = respread_by_canary(state, body)
        spread = None if found is None else spread_of(found)
        expect(event, body.spread == spread, f"its pairs give the spread {spread!r}")
        state.calibration = found
    state.canaries.append(CanaryStep(body.sort, body.planted, p_value))
    if not state.quarantined:
        state.quarantine_due = alarm(*recent_canaries(state))


def recent_canaries(state: CampaignState) -> tuple[list[float], list[bool]]:
    """Return the A/A p-values, and which delays were seen, since the last calibration."""
    recent = state.canaries[state.canaries_before :]
    known = [(one.sort, one.p_value) for one in recent if one.p_value is not None]
    same = [p for sort, p in known if sort == "same"]
    return same, [p <= LEVEL for sort, p in known if sort == "delayed"]
