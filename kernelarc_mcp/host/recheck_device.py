"""Holding what is recorded of a device against recorded pairs: its calibration and its limits; pure."""

import math
from collections.abc import Sequence

from kernelarc_guard.decide import Calibration, Parameters, block_values, calibrate_from
from kernelarc_guard.problem import Problem
from kernelarc_guard.protocol import Result
from kernelarc_guard.rulers import below, limits_of
from kernelarc_guard.solution import Solution
from kernelarc_mcp.host.recheck import blocks_of


def recheck_calibration(
    result: Result, problem: Problem, device: str, parameters: Parameters
) -> list[str]:
    """Return which of a calibration's numbers do not follow from its pairs.

    Only when it was measured and with what, what pairs and blocks cost and the rulers are taken as they are.
    """
    calibration = result.calibration
    if calibration is None:
        return ["there is no calibration"]
    try:
        again = calibrate_from(
            device,
            problem.digest,
            calibration.at,
            _nurseries(result, calibration, problem.weights()),
            calibration.pair_seconds or 0.0,
            calibration.block_seconds or 0.0,
            parameters,
            calibration.rulers,
            calibration.toolchain,
        )
    except ValueError as error:
        return [f"its pairs give no calibration: {error}"]
    return [
        f"its pairs give another {name}: {_shown(found)}, not {_shown(said)}"
        for name, found, said in (
            (name, getattr(again, name), getattr(calibration, name))
            for name in Calibration.model_fields
        )
        if not _same(found, said)
    ]


def recheck_limit(result: Result, problem: Problem, candidate: Solution) -> list[str]:
    """Return where a judgement's pairs and what it says of the device's physical limit disagree."""
    says = result.reason == "below_physical_limit"
    if not result.pairs:
        return ["it says below_physical_limit without a pair"] if says else []
    rulers = result.calibration.rulers if result.calibration is not None else None
    if rulers is None:
        return ["its pairs were not held against rulers of the device"]
    limits = limits_of(rulers, problem, candidate)
    try:
        found = [
            below([block.candidate for block in pair.blocks], limits.least) is not None
            for pair in result.pairs
        ]
    except (IndexError, ValueError) as error:
        return [f"its pairs cannot be held against the device's rulers: {error}"]
    if found == [False] * (len(found) - 1) + [says]:
        return []
    if says:
        return ["its last pair alone has to be below the device's physical limit, and is not"]
    return [f"pair {found.index(True) + 1} is below the device's physical limit, which it ignores"]


def _nurseries(
    result: Result, calibration: Calibration, weights: Sequence[float]
) -> list[list[list[float]]]:
    """Return the block values (percent) of a calibration's pairs, nursery by nursery."""
    values = [block_values(blocks_of(pair), weights) for pair in result.pairs]
    if sum(calibration.nurseries) != len(values):
        raise ValueError(
            f"{len(values)} pairs, but {sum(calibration.nurseries)} in its nurseries together"
        )
    given = iter(values)
    return [[next(given) for _ in range(size)] for size in calibration.nurseries]


def _same(found: object, said: object) -> bool:
    """Compare, with room for the last digit of what another machine's libraries compute."""
    if isinstance(found, list) and isinstance(said, list):
        return len(found) == len(said) and all(map(_same, found, said))
    if isinstance(found, float) and isinstance(said, float):
        return math.isclose(found, said, rel_tol=1e-8, abs_tol=1e-12)
    return found == said


def _shown(value: object) -> str:
    text = f"{value:.6g}" if isinstance(value, float) else str(value)
    return text if len(text) <= 80 else text[:74] + " [...]"
