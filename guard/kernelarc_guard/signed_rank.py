"""Wilcoxon's signed-rank test in exact integers: valid for every law that is symmetric about zero."""

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kernelarc_guard.terms import Floats

_CHUNK = 1 << 17
"""Walsh averages that are worked on at once."""


@lru_cache(maxsize=512)
def tail_counts(n: int) -> tuple[int, ...]:
    """Count the sign patterns of n values whose positive ranks sum to at least w, for every w.

    Entry w of the n(n+1)/2 + 1 entries, divided by 2**n, is P(W+ >= w) when every sign is a fair
    coin.
    """
    if n < 0:
        raise ValueError(f"a number of values cannot be {n}")
    most = n * (n + 1) // 2
    exactly = [1] + [0] * most
    for rank in range(1, n + 1):
        # Downwards, so that each rank is counted once per pattern.
        for w in range(rank * (rank + 1) // 2, rank - 1, -1):
            exactly[w] += exactly[w - rank]
    tail = exactly
    for w in range(most - 1, -1, -1):
        tail[w] += tail[w + 1]
    return tuple(tail)


@lru_cache(maxsize=4096)
def critical_sum(n: int, level: float) -> int | None:
    """Return the smallest w with P(W+ >= w) <= level, or None where even all n signs are not enough."""
    allowed = level * 2.0**n  # exact: only the exponent changes
    for w, patterns in enumerate(tail_counts(n)):
        if patterns <= allowed:
            return w
    return None


def lower_bound(values: Sequence[float], level: float) -> float | None:
    """Return the one-sided confidence bound of the centre of symmetry: a Walsh average.

    The centre lies below it with probability at most `level`. None where no bound exists at it.
    """
    import numpy as np

    bound = float(lower_bounds(np.array([values], float), np.array([level]))[0])
    return None if bound == -math.inf else bound


def lower_bounds(values: "Floats", levels: "Floats") -> "Floats":
    """Return the bound of each row of values at its level; -inf where there is none."""
    import numpy as np

    count, n = values.shape
    bounds = np.full(count, -np.inf)
    averages = n * (n + 1) // 2
    # A few hundred rows at a time: their averages stay in the cache.
    step = max(1, _CHUNK // averages)
    for level in np.unique(levels).tolist():
        w = critical_sum(n, level)
        if w is None:
            continue
        if w == 0:
            raise ValueError(f"a level of {level} asks for no evidence")
        place = averages - w
        rows = np.flatnonzero(levels == level)
        for start in range(0, len(rows), step):
            some = values[rows[start : start + step]]
            sums = np.empty((len(some), averages))
            filled = 0
            for first in range(n):
                width = n - first
                np.add(some[:, first:], some[:, first, None], out=sums[:, filled : filled + width])
                filled += width
            sums.partition(place, axis=1)
            bounds[rows[start : start + step]] = sums[:, place] / 2
    return bounds
