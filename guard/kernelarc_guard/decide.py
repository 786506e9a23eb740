"""The KEEP rule: screen a candidate on a few pairs, then confirm it once, exactly, on new ones.

Pure functions of pair values, parameters, calibration and stake; the same input gives the same
bytes. The guard calls `screen` or `confirm` after every pair until it answers; `verify` replays.
"""

import math
from collections.abc import Sequence
from typing import Literal

from kernelarc_guard.calibration import calibrate_from
from kernelarc_guard.pairs import block_values, pair_value, workload_values
from kernelarc_guard.plan import Look, confirmation_plan, delta_of, goal, resolution
from kernelarc_guard.rule import Calibration, Decision, Parameters
from kernelarc_guard.signed_rank import lower_bound

__all__ = [
    "Calibration",
    "Decision",
    "Look",
    "Parameters",
    "block_values",
    "calibrate_from",
    "confirm",
    "confirmation_plan",
    "goal",
    "pair_value",
    "replay_confirm",
    "replay_screen",
    "resolution",
    "screen",
    "workload_values",
]

Outcome = Literal["promising", "KEEP", "ACCEPT", "REVERT"]


def screen(
    values: Sequence[float], parameters: Parameters, calibration: Calibration, stake: float
) -> Decision | None:
    """Decide from the pairs of a screen; None asks for another pair.

    ValueError where the rule had stopped before the last of the values.
    """
    _check_possible(values)
    looked_for = goal(parameters, calibration, stake)
    dropped = False
    for k in range(1, len(values) + 1):
        mean = math.fsum(values[:k]) / k
        error = calibration.sd_screen / math.sqrt(k)
        unit = calibration.sd_screen**2 / (looked_for * k)
        last = k >= parameters.screen_pairs
        promoted = not dropped and mean >= looked_for / 2 + (
            0.0 if last else parameters.promote_log_odds * unit
        )
        dropped = dropped or last or mean <= looked_for / 2 - parameters.drop_log_odds * unit
        verdict = _screen_verdict(mean, error, k, promoted, dropped, parameters)
        if verdict is None:
            continue
        if k < len(values):
            raise ValueError(f"the screen stopped after {k} pairs, yet {len(values)} are given")
        outcome, reason = verdict
        blocks = calibration.blocks_screen
        says = f"{mean:+.3f} % over {k} screening pairs (sd {calibration.sd_screen:.3f} %)"
        says += f"; goal {looked_for:.3f} %, band {parameters.band:g} %."
        return _decision(
            outcome, reason, mean, None, k, blocks, None, parameters, calibration, stake, says
        )
    return None


def _screen_verdict(
    mean: float, error: float, k: int, promoted: bool, dropped: bool, parameters: Parameters
) -> tuple[Outcome, str | None] | None:
    band, close = parameters.band, parameters.close_z * error
    if mean + parameters.hopeless_z * error < -band:
        return "REVERT", "slower"
    if promoted:
        return "promising", None
    if not dropped or k < 2:
        return None
    if mean - close > -band:
        return "ACCEPT", "close_to_record"
    if mean + close < -band:
        return "REVERT", "slower"
    if mean < -band or k >= parameters.dropped_pairs:
        return "REVERT", "not_proven_close"
    return None


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
    _check_possible(values)
    _check_workloads(values, per_workload_values)
    plan = confirmation_plan(parameters, calibration, stake)
    for number, look in enumerate(plan, start=1):
        if look.pairs > len(values):
            return None
        decision = _look(
            values[: look.pairs],
            per_workload_values[: look.pairs],
            number,
            plan,
            parameters,
            calibration,
            stake,
        )
        if decision is not None:
            if look.pairs < len(values):
                raise ValueError(
                    f"the confirmation stopped after {look.pairs} pairs,"
                    f" yet {len(values)} are given"
                )
            return decision
    raise AssertionError("the last look always decides")


def _look(
    values: Sequence[float],
    per_workload: Sequence[Sequence[float]],
    number: int,
    plan: Sequence[Look],
    parameters: Parameters,
    calibration: Calibration,
    stake: float,
) -> Decision | None:
    """Decide at one look, or return None where the next one is still worth its pairs."""
    look = plan[number - 1]
    n, sd = look.pairs, calibration.sd_confirm
    mean = math.fsum(values) / n
    error = sd / math.sqrt(n)
    delta = delta_of(parameters, calibration)
    lower = _lower(values, look, sd)
    outcome: Outcome
    if lower is not None and lower > delta:
        regressed = _regressed_workload(per_workload, parameters)
        outcome, reason = ("KEEP", "confirmed")
        if regressed is not None:
            outcome, reason = ("REVERT", "workload_regressed")
    else:
        regressed = None
        hopeless = mean < delta and mean + parameters.stop_z * error < goal(
            parameters, calibration, stake
        )
        if number < len(plan) and not hopeless:
            return None
        close = mean - parameters.close_z * error > -parameters.band
        outcome, reason = (
            ("ACCEPT", "gain_not_confirmed") if close else ("REVERT", "not_proven_close")
        )
    bound = "none" if lower is None else f"{lower:+.3f} %"
    says = f"{mean:+.3f} % over {n} confirming pairs, lower bound {bound}"
    says += f"; a KEEP needs more than {delta:.3f} %."
    if regressed is not None:
        says += f" Workload {regressed} is shown slower than the band of {parameters.band:g} %."
    blocks = calibration.blocks_confirm
    return _decision(
        outcome, reason, mean, lower, n, blocks, number, parameters, calibration, stake, says
    )


def _lower(values: Sequence[float], look: Look, sd: float) -> float | None:
    """Return the lower bound (percent) of the gain at one look's level."""
    if look.test == "W":
        return lower_bound(values, look.level)
    n = len(values)
    # The calibrated spread is a floor: seven pairs that agree by luck prove nothing more.
    spread = max(_sample_sd(values), sd)
    lower = math.fsum(values) / n - _t_quantile(look.level, n - 1) * spread / math.sqrt(n)
    return lower if math.isfinite(lower) else None


def _regressed_workload(
    per_workload: Sequence[Sequence[float]], parameters: Parameters
) -> int | None:
    """Return the first workload (from 0) shown to be worse than the band, or None."""
    n, workloads = len(per_workload), len(per_workload[0])
    quantile = _t_quantile(parameters.workload_level / workloads, n - 1)
    for w in range(workloads):
        column = [pair[w] for pair in per_workload]
        upper = math.fsum(column) / n + quantile * _sample_sd(column) / math.sqrt(n)
        if upper < -parameters.band:
            return w
    return None


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
    outcome: Outcome,
    reason: str | None,
    mean: float,
    lower: float | None,
    pairs: int,
    blocks: int,
    look: int | None,
    parameters: Parameters,
    calibration: Calibration,
    stake: float,
    detail: str,
) -> Decision:
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
        stake=stake,
        goal=goal(parameters, calibration, stake),
        delta=delta_of(parameters, calibration),
        band=parameters.band,
        resolution=resolution(parameters, calibration, stake),
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


def _sample_sd(values: Sequence[float]) -> float:
    mean = math.fsum(values) / len(values)
    return math.sqrt(math.fsum((v - mean) ** 2 for v in values) / (len(values) - 1))


def _t_quantile(level: float, freedom: int) -> float:
    """Return the upper quantile of Student's t."""
    # scipy.special, not scipy.stats: the same number, without a second of imports.
    from scipy.special import stdtrit

    return -float(stdtrit(freedom, level))
