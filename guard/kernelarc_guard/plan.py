"""What a confirmation can resolve, and the looks it takes: fixed before its first pair is measured."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from kernelarc_guard.rule import Calibration, Parameters

if TYPE_CHECKING:
    from kernelarc_guard.terms import Terms


@dataclass(frozen=True)
class Look:
    """One planned test: after how many pairs, which test, and at which level."""

    pairs: int
    test: Literal["T", "W"]
    level: float


def delta_of(parameters: Parameters, calibration: Calibration) -> float:
    """Return the gain (percent) that a KEEP must exceed."""
    return max(parameters.delta, calibration.delta)


def resolution(parameters: Parameters, calibration: Calibration, stake: float) -> float:
    """Return the smallest true gain (percent) that n_max pairs prove with probability 1 - miss."""
    return float(terms_of(parameters, calibration, stake).resolution[0])


def goal(parameters: Parameters, calibration: Calibration, stake: float) -> float:
    """Return the gain (percent) to look for: the target, or the resolution where that is larger."""
    return float(terms_of(parameters, calibration, stake).goal[0])


def confirmation_plan(
    parameters: Parameters, calibration: Calibration, stake: float
) -> tuple[Look, ...]:
    """Return the looks of a confirmation, in order; their levels add up to the stake."""
    planned = terms_of(parameters, calibration, stake)
    looks = zip(planned.pairs[0].tolist(), planned.levels[0].tolist(), strict=True)
    return tuple(
        Look(pairs, "W" if stage else "T", level)
        for stage, (pairs, level) in enumerate(looks)
        if pairs
    )


def terms_of(parameters: Parameters, calibration: Calibration, stake: float) -> "Terms":
    """Return the terms of one submission."""
    # Here and not above: numpy stays out of processes that decide nothing.
    from kernelarc_guard.terms import terms

    return terms(
        parameters,
        sd_screen=calibration.sd_screen,
        sd_confirm=calibration.sd_confirm,
        delta=calibration.delta,
        stake=stake,
    )
