"""Sums that are kept up row by row, so that no answer counts a whole campaign; pure."""

import math
from bisect import bisect_left, insort
from dataclasses import replace

from kernelarc_guard.protocol import Result
from kernelarc_guard.reasons import Verdict
from kernelarc_mcp.host.state import Attempt, CampaignState, LensTotals, RecordStep


def totals_of(state: CampaignState, lens: str) -> LensTotals:
    """Return the sums of a lens, to be changed."""
    found = state.lens_totals.get(lens)
    if found is None:
        found = state.lens_totals[lens] = LensTotals()
    return found


def count_verdict(state: CampaignState, attempt: Attempt, verdict: Verdict) -> None:
    """Add a verdict, and what the judgements that led to it held the device for."""
    totals = totals_of(state, attempt.lens)
    totals.verdicts[verdict] += 1
    judged = [result for result in (attempt.screen, attempt.confirmation) if result is not None]
    totals.device_ns += sum(map(_held, judged))


def add_record(state: CampaignState, step: RecordStep) -> None:
    """Append a record, and count its gain for the lens it was found under."""
    state.record_places[step.ticket] = len(state.records)
    insort(state.ranking, (-step.speedup, len(state.records)))
    state.records.append(step)
    if step.gain is not None:
        totals = totals_of(state, state.attempts[step.ticket].lens)
        totals.keeps += 1
        totals.gain_percent += 100 * math.log(step.gain)


def withdraw_record(state: CampaignState, ticket: str, reason: str, detail: str) -> None:
    """Mark a record as withdrawn and take its gain away again."""
    position = state.record_places[ticket]
    step = state.records[position]
    state.records[position] = replace(step, withdrawn=reason, withdrawn_detail=detail)
    del state.ranking[bisect_left(state.ranking, (-step.speedup, position))]
    insort(state.withdrawn, position)
    lens = state.attempts[ticket].lens
    # Summed anew: subtracting would leave a rounding error.
    gains = [
        100 * math.log(other.gain)
        for other in state.records
        if other.gain is not None
        and not other.withdrawn
        and state.attempts[other.ticket].lens == lens
    ]
    totals = totals_of(state, lens)
    totals.keeps, totals.gain_percent = len(gains), math.fsum(gains)


def _held(result: Result) -> int:
    lease = result.lease
    return 0 if lease is None else max(0, lease.to_ns - lease.from_ns)
