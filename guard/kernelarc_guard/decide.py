"""The KEEP rule: screen a candidate on a few pairs, then confirm it once, exactly, on new ones.

Pure functions of pair values, parameters, calibration and stake; the same input gives the same
bytes. The guard calls `screen` or `confirm` after every pair until it answers; `verify` replays.
The rule itself is in `core`, over arrays: here it gets one submission, and words.
"""

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, Literal

from kernelarc_guard.calibration import calibrate_from, respread
from kernelarc_guard.pairs import block_values, pair_value, workload_values
from kernelarc_guard.plan import Look, confirmation_plan, goal, resolution, terms_of
from kernelarc_guard.rule import Calibration, Decision, Parameters, Rulers
from kernelarc_guard.words import times

if TYPE_CHECKING:
    from kernelarc_guard.core import Source, Verdict
    from kernelarc_guard.terms import Floats, Ints, Terms

__all__ = [
    "Calibration",
    "Decision",
    "Look",
    "Parameters",
    "Rulers",
    "block_values",
    "calibrate_from",
    "confirm",
    "confirmation_plan",
    "goal",
    "pair_value",
    "replay_confirm",
    "replay_screen",
    "resolution",
    "respread",
    "screen",
    "workload_values",
]

Outcome = Literal["promising", "KEEP", "ACCEPT", "REVERT"]

_OUTCOMES: Final[dict[str, tuple[Outcome, str | None]]] = {
    "PROMISING": ("promising", None),
    "CLOSE": ("ACCEPT", "close_to_record"),
    "SLOWER": ("REVERT", "slower"),
    "NOT_CLOSE": ("REVERT", "not_proven_close"),
    "CONFIRMED": ("KEEP", "confirmed"),
    "NOT_CONFIRMED": ("ACCEPT", "gain_not_confirmed"),
    "REGRESSED": ("REVERT", "workload_regressed"),
}
"""What the core's verdicts mean to a submission: outcome and reason code."""


def screen(
    values: Sequence[float], parameters: Parameters, calibration: Calibration, stake: float
) -> Decision | None:
    """Decide from the pairs of a screen; None asks for another pair.

    ValueError where the rule had stopped before the last of the values.
    """
    from kernelarc_guard import core

    _check_possible(values)
    planned = terms_of(parameters, calibration, stake)
    judged = core.screen(_tape(values), planned, parameters, len(values))
    verdict, k, mean = judged.verdict[0], int(judged.pairs[0]), float(judged.mean[0])
    if verdict == core.Verdict.OPEN:
        return None
    if k < len(values):
        raise ValueError(f"the screen stopped after {k} pairs, yet {len(values)} are given")
    says = f"{times(mean)} the record's speed over {k} screening pairs (sd {calibration.sd_screen:.3f} %)"
    says += f"; goal {times(float(planned.goal[0]))}, band {parameters.band:g} %."
    return _decision(
        core.Verdict(verdict), mean, None, k, None, parameters, calibration, planned, says
    )


def confirm(
    values: Sequence[float],
    per_workload_values: Sequence[Sequence[float]],
    parameters: Parameters,
    calibration: Calibration,
    stake: float,
) -> Decision | None:
    """Decide from the pairs of a confirmation; None asks for another pair.

    `per_workload_values` is pairs x workloads. ValueError where the two disagree in their number
    of pairs, or where the rule had stopped before the last of the values.
    """
    import numpy as np

    from kernelarc_guard import core

    _check_possible(values)
    _check_workloads(values, per_workload_values)
    planned = terms_of(parameters, calibration, stake)

    def regressed(rows: "Ints", n: int) -> "Ints":
        return core.regressed_workload(np.array([per_workload_values[:n]], float), parameters)

    judged = core.confirm(_tape(values), regressed, planned, parameters, len(values))
    verdict, n, mean = judged.verdict[0], int(judged.pairs[0]), float(judged.mean[0])
    if verdict == core.Verdict.OPEN:
        return None
    if n < len(values):
        raise ValueError(f"the confirmation stopped after {n} pairs, yet {len(values)} are given")
    bounded = float(judged.lower[0])
    lower = bounded if math.isfinite(bounded) else None
    bound = "none" if lower is None else times(lower)
    says = f"{times(mean)} the record's speed over {n} confirming pairs, lower bound {bound}"
    says += f"; a KEEP needs more than {times(float(planned.delta[0]))}."
    if judged.workload[0] >= 0:
        says += (
            f" Workload {judged.workload[0]} is shown slower than the band"
            f" of {parameters.band:g} %."
        )
    look = int(judged.look[0])
    return _decision(
        core.Verdict(verdict), mean, lower, n, look, parameters, calibration, planned, says
    )


def _tape(values: Sequence[float]) -> "Source":
    """Return a source that plays one recorded series."""
    import numpy as np

    played = iter(values)

    def source(rows: "Ints", count: int) -> "Floats":
        return np.array([[next(played) for _ in range(count)]], float)

    return source


def replay_screen(
    values: Sequence[float], parameters: Parameters, calibration: Calibration, stake: float
) -> Decision:
    """Return the decision at which a recorded screen stopped.

    ValueError where the series goes on after the stop, or ends before it.
    """
    return _finished(screen(values, parameters, calibration, stake), len(values), "screen")


def replay_confirm(
    values: Sequence[float],
    per_workload_values: Sequence[Sequence[float]],
    parameters: Parameters,
    calibration: Calibration,
    stake: float,
) -> Decision:
    """Return the decision at which a recorded confirmation stopped.

    ValueError where the series goes on after the stop, or ends before it.
    """
    decision = confirm(values, per_workload_values, parameters, calibration, stake)
    return _finished(decision, len(values), "confirmation")


def _finished(decision: Decision | None, pairs: int, what: str) -> Decision:
    if decision is None:
        raise ValueError(f"the {what} ends after {pairs} pairs, before the rule has decided")
    return decision


def _decision(
    verdict: "Verdict",
    mean: float,
    lower: float | None,
    pairs: int,
    look: int | None,
    parameters: Parameters,
    calibration: Calibration,
    planned: "Terms",
    detail: str,
) -> Decision:
    outcome, reason = _OUTCOMES[verdict.name]
    blocks = calibration.blocks_screen if look is None else calibration.blocks_confirm
    return Decision(
        outcome=outcome,
        reason=reason,
        speedup=math.exp(mean / 100),
        lower=None if lower is None else math.exp(lower / 100),
        mean_percent=mean,
        lower_percent=lower,
        pairs=pairs,
        blocks=pairs * blocks,
        look=look,
        stake=float(planned.stake[0]),
        goal=float(planned.goal[0]),
        delta=float(planned.delta[0]),
        band=parameters.band,
        resolution=float(planned.resolution[0]),
        detail=detail,
    )


def _check_possible(values: Sequence[float]) -> None:
    for value in values:
        # exp(100) is far beyond what nanoseconds in 64 bits can differ by.
        if not abs(value) < 10_000:
            raise ValueError(f"a pair value cannot be {value} %")


def _check_workloads(
    values: Sequence[float], per_workload_values: Sequence[Sequence[float]]
) -> None:
    if len(per_workload_values) != len(values):
        raise ValueError(
            f"{len(values)} pairs, but workload values of {len(per_workload_values)} pairs"
        )
    widths = {len(pair) for pair in per_workload_values}
    if len(widths) > 1 or widths == {0}:
        raise ValueError("every pair needs the values of every workload")
    for pair in per_workload_values:
        _check_possible(pair)
