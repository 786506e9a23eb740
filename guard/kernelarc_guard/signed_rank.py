"""Wilcoxon's signed-rank test in exact integers: valid for every law that is symmetric about zero."""

from collections.abc import Sequence
from functools import lru_cache


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
    w = critical_sum(len(values), level)
    if w is None:
        return None
    if w == 0:
        raise ValueError(f"a level of {level} asks for no evidence")
    ordered = sorted(values, reverse=True)
    averages = [(a + b) / 2 for i, a in enumerate(ordered) for b in ordered[i:]]
    averages.sort(reverse=True)
    return averages[w - 1]
