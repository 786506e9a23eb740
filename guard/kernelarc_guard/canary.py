"""Canaries: comparisons whose answer is known, and when they say that a device cannot be trusted; pure.

A/A canaries compare a record with itself: their p-values are uniform on an unbiased path. Delayed
ones compare it with itself made slower, which a path with any power must see.
"""

import math
from collections.abc import Sequence
from statistics import NormalDist

from kernelarc_guard.rule import Calibration, Parameters
from kernelarc_guard.signed_rank import tail_counts

LEVEL = 0.05
"""A p-value up to this is a hit."""
MISSES = 0.2
"""A sound path misses at most this part of the planted delays."""
FALSE_ALARM = 0.01
"""Chance of an alarm on a sound device, for each count of canaries."""


def p_greater(values: Sequence[float]) -> float:
    """Return the exact signed-rank p-value against a centre above zero; ties count against it."""
    n = len(values)
    if n < 1:
        raise ValueError("a p-value needs values")
    walsh = sum(values[i] + values[j] > 0 for i in range(n) for j in range(i, n))
    return float(tail_counts(n)[walsh] / 2**n)


def p_two_sided(values: Sequence[float]) -> float:
    """Return the exact signed-rank p-value against a centre that is not zero."""
    smaller = min(p_greater(values), p_greater([-value for value in values]))
    return min(1.0, 2 * smaller)


def least_delay(calibration: Calibration, parameters: Parameters, pairs: int) -> float:
    """Return the delay (percent) that so many pairs show as often as the alarm takes for granted.

    Beyond what a bias shared by all pairs may hide of it.
    """
    level, power = (NormalDist().inv_cdf(1 - chance) for chance in (LEVEL, MISSES))
    # The signed-rank test needs more pairs than a t-test, and that some more than normal ones.
    counted = (pairs - level * level / 2) * parameters.efficiency
    bias = max(parameters.delta, calibration.delta)
    return bias + calibration.sd_confirm * (level + power) / math.sqrt(counted)


def most_hits(count: int, chance: float) -> int:
    """Return the largest number of hits among `count` that is no alarm, each having this chance."""
    tail = 1.0
    for hits in range(count + 1):
        tail -= math.comb(count, hits) * chance**hits * (1 - chance) ** (count - hits)
        if tail <= FALSE_ALARM:
            return hits
    return count


def alarm(same: Sequence[float], delayed: Sequence[bool]) -> str:
    """Return why these canaries are an alarm, or an empty string.

    `same` has the p-values of A/A canaries, `delayed` whether each planted delay was seen.
    """
    hits, allowed = sum(p <= LEVEL for p in same), most_hits(len(same), LEVEL)
    if hits > allowed:
        return (
            f"{hits} of {len(same)} comparisons of the record with itself show a difference"
            f" (p <= {LEVEL:g}); chance explains {allowed}"
        )
    missed, allowed = len(delayed) - sum(delayed), most_hits(len(delayed), MISSES)
    if missed > allowed:
        return f"{missed} of {len(delayed)} planted delays were not seen; chance explains {allowed}"
    return ""


def exact_interval(hits: int, count: int, error: float = 0.05) -> tuple[float, float]:
    """Return the two-sided Clopper-Pearson interval of a probability, error in all 5 % by default."""
    from scipy.special import betaincinv

    if not 0 <= hits <= count:
        raise ValueError(f"{hits} of {count}")
    half = error / 2
    low = 0.0 if hits == 0 else float(betaincinv(hits, count - hits + 1, half))
    high = 1.0 if hits == count else float(betaincinv(hits + 1, count - hits, 1 - half))
    return low, high
