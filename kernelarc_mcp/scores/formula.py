"""The SOL score as it is published with SOL-ExecBench: per workload, and for a problem; pure.

T_k is a solution's time, T_SOL a bound, T_b a baseline, all in one unit. 0.5 is the baseline, 1 the
bound. There is no clamp: a time below the bound scores above 1, which speaks against the bound or the
time, and where T_k is at or below 2 T_SOL - T_b the published fraction means nothing at all.
"""

import math
from collections.abc import Sequence
from typing import Final, NamedTuple

_STEPS: Final = 200


class Span(NamedTuple):
    """A bound and a baseline of one workload, in one unit of time."""

    bound: float
    baseline: float


def sol_score(time: float, span: Span) -> float:
    """Return 1 / (1 + (T_k - T_SOL) / (T_b - T_SOL)).

    Where the baseline is not above the bound: 1 for a time that is not above it either, else 0.
    Infinite at the fraction's pole, negative beyond it. ValueError for a time that is no time.
    """
    for value in (time, *span):
        if not (math.isfinite(value) and value >= 0):
            raise ValueError(f"{value!r} is no time; expected a number of at least 0")
    gap = span.baseline - span.bound
    if gap <= 0:
        return 1.0 if time <= span.bound else 0.0
    below = 1.0 + (time - span.bound) / gap
    return math.inf if below == 0 else 1.0 / below


def problem_score(scores: Sequence[float | None]) -> float:
    """Return the mean over a problem's workloads; None, one that did not pass, counts 0."""
    if not scores:
        raise ValueError("a problem without workloads has no score")
    return math.fsum(score or 0.0 for score in scores) / len(scores)


def uniform_ratio(score: float, spans: Sequence[Span]) -> float:
    """Return the T_k / T_b that, the same on all workloads, has this problem score.

    ValueError for a score that no ratio above every workload's pole has.
    """
    if not spans or any(not 0 <= one.bound < one.baseline for one in spans):
        raise ValueError("expected workloads whose baseline is above their bound")
    if not 0 < score < math.inf:
        raise ValueError(f"{score!r}: expected a score above 0")
    # Above all poles every term falls with the ratio.
    low = max(0.0, *(2 * one.bound / one.baseline - 1 for one in spans))
    high = max(1.0, 2 * low)
    while _at(high, spans) > score:
        high *= 2
    if low == 0.0 and _at(0.0, spans) < score:
        raise ValueError(f"no time reaches {score:g}: at 0 it is {_at(0.0, spans):.4g}")
    for _ in range(_STEPS):
        middle = (low + high) / 2
        low, high = (middle, high) if _at(middle, spans) > score else (low, middle)
    return high


def _at(ratio: float, spans: Sequence[Span]) -> float:
    return problem_score([sol_score(ratio * one.baseline, one) for one in spans])
