"""How a delay is divided among workloads where it cannot be as short as one likes; pure."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from typing import Final

from kernelarc_guard.protocol import PairTimes

_MOST_PERCENT: Final = 50.0
"""So much longer some workloads' calls become rather than that more is planted than was asked for."""


@dataclass(frozen=True)
class Delays:
    """What is added to the calls of each workload."""

    percent: float
    """100 * ln of the ratio by which the weighted geometric mean of all workloads' calls grows."""
    ns: tuple[int, ...]
    """By workload; 0: its calls stay as they are."""


def spread(
    times_ns: Sequence[float], weights: Sequence[float], percent: float, least_ns: float
) -> Delays:
    """Divide a delay of `percent` over all workloads, of which none may be shorter than `least_ns`.

    `times_ns` is what their calls take. One part of that is added to as many as can have it; the
    shortest, of which it is too little to plant, are left alone, and the others have theirs too.
    More than was asked for is planted only where that cannot be met. ValueError for times or weights
    that are none.
    """
    total = math.fsum(weights)
    if len(times_ns) != len(weights) or min(weights) < 0 or total <= 0:
        raise ValueError("weights: one for each workload, none negative, not all zero")
    if min(times_ns) <= 0 or percent <= 0 or least_ns < 0:
        raise ValueError("times and the delay are positive, the least delay is not negative")
    needs = sorted(
        (100 * math.log1p(least_ns / time), index)
        for index, (time, weight) in enumerate(zip(times_ns, weights, strict=True))
        if weight > 0
    )
    share, part, delayed = 0.0, 0.0, list[int]()
    for need, index in needs:
        wider = share + weights[index] / total
        if share and need * wider > percent and percent / share <= max(need, _MOST_PERCENT):
            break  # those before it carry all of it
        share = wider
        part = max(need, percent / share)
        delayed.append(index)
    ns = [0] * len(times_ns)
    for index in delayed:
        ns[index] = round(times_ns[index] * math.expm1(part / 100))
    return Delays(share * part, tuple(ns))


def typical_ns(pair: PairTimes) -> list[float]:
    """Return the median of both arms' calls of each workload, for a pair of one solution with itself."""
    return [
        median(
            call
            for block in pair.blocks
            for arm in (block.record, block.candidate)
            for call in arm[w]
        )
        for w in range(len(pair.blocks[0].record))
    ]
