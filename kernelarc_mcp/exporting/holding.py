"""Whether a verdict holds when its candidate is judged again."""

from typing import Final

from kernelarc_guard.model import Model
from kernelarc_guard.reasons import Verdict
from kernelarc_mcp.evaluation import Evaluation
from kernelarc_mcp.exporting.candidates import Judged

_UNPROVEN: Final = ("close_to_record", "gain_not_confirmed", "not_proven_close")


class Reproduction(Model):
    """A recorded verdict beside a new one; scripts read this, so fields are only ever added."""

    submission: str
    record: str
    """Ticket of what it was, and is, compared with."""
    recorded_verdict: str
    recorded_reason: str
    recorded_speedup: float | None
    recorded_lower: float | None
    verdict: Verdict
    reason: str
    speedup: float | None
    lower: float | None
    holds: bool
    says: str
    """What follows, in words."""
    evaluation: Evaluation


def reproduction(candidate: Judged, again: Evaluation) -> Reproduction:
    """Compare a recorded verdict with that of judging it again.

    A KEEP holds only by a KEEP. ACCEPT and REVERT `slower` are two sides of one band, so both hold
    while nothing was found wrong and no gain was proven; any other verdict holds by its own reason.
    """
    holds = _holds(candidate, again)
    return Reproduction(
        submission=candidate.ticket,
        record=candidate.against,
        recorded_verdict=candidate.verdict,
        recorded_reason=candidate.reason,
        recorded_speedup=candidate.speedup,
        recorded_lower=candidate.lower,
        verdict=again.verdict,
        reason=again.reason,
        speedup=again.speedup,
        lower=again.lower,
        holds=holds,
        says=_says(candidate, again, holds=holds),
        evaluation=again,
    )


def _holds(candidate: Judged, again: Evaluation) -> bool:
    if candidate.verdict == "KEEP" or again.verdict == "KEEP":
        return candidate.verdict == again.verdict
    if candidate.stage == "timing":
        return again.stage == "timing"
    return (candidate.verdict, candidate.reason) == (again.verdict, again.reason)


def _says(candidate: Judged, again: Evaluation, *, holds: bool) -> str:
    if holds and again.verdict == "KEEP":
        return f"It is faster than {candidate.against} here too, by more than {again.lower:.4f}x."
    if holds:
        return f"It holds: {again.detail}"
    if candidate.verdict == "KEEP" and again.reason in _UNPROVEN:
        resolution = again.resolution
        least = (
            ""
            if resolution is None
            else f"; the least this device could prove is {resolution:.2f} %"
        )
        return f"It is right here, but its gain was not proven again{least}. {again.detail}"
    return f"It does not hold: {again.verdict} {again.reason}. {again.detail}"
