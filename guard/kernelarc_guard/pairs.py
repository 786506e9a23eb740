"""The value of a fresh pair of runners: how much faster the candidate was, from raw call times."""

import math
from collections.abc import Sequence
from statistics import median

Times = Sequence[Sequence[int]]
"""Nanoseconds of one arm in one block, `[workload][call]`."""
Block = tuple[Times, Times]
"""One side-by-side block: the record's times and the candidate's."""


def middle_mean(values: Sequence[float]) -> float:
    """Return the mean of the middle half of the values, of all of them where they are fewer than 4."""
    if not values:
        raise ValueError("no block to take a mean of")
    cut = len(values) // 4
    kept = sorted(values)[cut : len(values) - cut]
    return math.fsum(kept) / len(kept)


def block_values(blocks: Sequence[Block], weights: Sequence[float]) -> list[float]:
    """Return the weighted gain (percent) of each block.

    Weights are taken relative to their sum. ValueError where a workload lacks times.
    """
    total = math.fsum(weights)
    if any(w < 0 or not math.isfinite(w) for w in weights) or total <= 0:
        raise ValueError("weights: non-negative numbers, not all zero")
    return [
        math.fsum(
            w / total * gain for w, gain in zip(weights, _gains(b, len(weights)), strict=True)
        )
        for b in blocks
    ]


def pair_value(blocks: Sequence[Block], weights: Sequence[float]) -> float:
    """Return the pair's gain (percent, positive: candidate faster) over all workloads."""
    return middle_mean(block_values(blocks, weights))


def workload_values(blocks: Sequence[Block], workloads: int) -> list[float]:
    """Return the pair's gain (percent) on each workload alone."""
    gains = [_gains(block, workloads) for block in blocks]
    return [middle_mean([block[w] for block in gains]) for w in range(workloads)]


def _gains(block: Block, workloads: int) -> list[float]:
    record, candidate = block
    if len(record) != workloads or len(candidate) != workloads:
        raise ValueError(
            f"a block has times of {len(record)} and {len(candidate)} workloads, not {workloads}"
        )
    return [100 * (_log_median(r) - _log_median(c)) for r, c in zip(record, candidate, strict=True)]


def _log_median(times: Sequence[int]) -> float:
    if not times:
        raise ValueError("a workload has no timed call")
    if min(times) <= 0:
        raise ValueError(f"a call cannot take {min(times)} ns")
    return math.log(median(times))
