"""Ratios to the anchor: record and candidate over the campaign's baseline, from one comparison.

The anchor is called beside some of the calls of a block. Its times are compared with the arms' times
of those very calls, pooled over the blocks of a pair, so that identical kernels give like statistics.
"""

import math
from collections.abc import Sequence
from statistics import fmean, median, stdev
from typing import Final

from kernelarc_guard.model import Model
from kernelarc_guard.pairs import Times, pair_value, workload_values
from kernelarc_guard.rule import Number

AnchorTimes = Sequence[Sequence[int | None]]
"""Nanoseconds of the anchor in one block, `[workload][call]`; None where it was not called."""
AnchoredBlock = tuple[Times, Times, AnchorTimes]
"""The record's times, the candidate's, the anchor's (empty: it was not measured)."""

TAIL = 0.025
"""Error on each side of a ratio's interval."""
_FIRST: Final = 3


class Ratio(Model):
    """How many times as fast as the anchor, over the pairs of one comparison that had it."""

    ratio: Number
    """exp(mean_percent / 100)."""
    lower: Number
    """Two-sided 95 % interval (t over the pairs)."""
    upper: Number
    mean_percent: Number
    error_percent: Number
    """Standard error of the mean."""
    pairs: int
    """Those that had the anchor."""


class Anchored(Model):
    """Both arms of a confirmation against the anchor."""

    record: Ratio | None
    """None where the record is the anchor."""
    candidate: Ratio


def anchor_due(place: int) -> bool:
    """Say whether a pair has the anchor where not all have, as some ledgers tell; by its place from 0 on."""
    return place < _FIRST or place % 2 == 0


def with_anchor(pairs: Sequence[Sequence[AnchoredBlock]]) -> Sequence[Sequence[AnchoredBlock]]:
    """Return those pairs of a confirmation that have the anchor, none where no pair has.

    ValueError where it is neither in every pair nor, as in some ledgers, just in those where it was due.
    """
    have = [any(anchor for _, _, anchor in blocks) for blocks in pairs]
    due = [anchor_due(place) for place in range(len(pairs))]
    if any(have) and not all(have) and have != due:
        first = next(place for place in range(len(pairs)) if have[place] != due[place])
        says = "has the anchor, though none is due" if have[first] else "lacks the anchor's times"
        raise ValueError(f"pair {first + 1} of {len(pairs)} {says}")
    return [blocks for blocks, one in zip(pairs, have, strict=True) if one]


def anchored(pairs: Sequence[Sequence[AnchoredBlock]], weights: Sequence[float]) -> Anchored:
    """Return both arms' ratios to the anchor; without anchor times the record is the anchor.

    ValueError where there are fewer than two pairs, or one lacks the anchor's times where it is due.
    """
    beside = with_anchor(pairs)
    if not beside:
        plain = [pair_value([(r, c) for r, c, _ in blocks], weights) for blocks in pairs]
        return Anchored(record=None, candidate=ratio_of(plain))
    total = math.fsum(weights)
    gains = [[_gains(blocks, w) for w in range(len(weights))] for blocks in beside]
    arms = [
        [math.fsum(w / total * gain[arm] for w, gain in zip(weights, pair, strict=True))
         for pair in gains]
        for arm in (0, 1)
    ]  # fmt: skip
    return Anchored(record=ratio_of(arms[0]), candidate=ratio_of(arms[1]))


def by_workload(pairs: Sequence[Sequence[AnchoredBlock]], workloads: int) -> list[Ratio]:
    """Return the candidate's ratio to the anchor on each workload alone, as `anchored` over all.

    Weighted together they are its ratio. Each interval is of its workload only. ValueError as there.
    """
    if beside := with_anchor(pairs):
        each = [[_gains(blocks, place)[1] for place in range(workloads)] for blocks in beside]
    else:
        each = [workload_values([(r, c) for r, c, _ in blocks], workloads) for blocks in pairs]
    return [ratio_of([gains[place] for gains in each]) for place in range(workloads)]


def ratio_of(values: Sequence[float]) -> Ratio:
    """Return the ratio that pair values (percent) have on average, with its interval."""
    if len(values) < 2:
        raise ValueError(f"a ratio needs two pairs or more, not {len(values)}")
    mean, error = fmean(values), stdev(values) / math.sqrt(len(values))
    half = error * student(TAIL, len(values) - 1)
    return Ratio(
        ratio=math.exp(mean / 100),
        lower=math.exp((mean - half) / 100),
        upper=math.exp((mean + half) / 100),
        mean_percent=mean,
        error_percent=error,
        pairs=len(values),
    )


def student(tail: float, freedom: int) -> float:
    """Return the value that Student's t exceeds with this probability."""
    from scipy.special import stdtrit

    return -float(stdtrit(freedom, tail))


def _gains(blocks: Sequence[AnchoredBlock], workload: int) -> tuple[float, float]:
    """Return how much faster (percent) than the anchor record and candidate were on a workload."""
    times: tuple[list[int], list[int], list[int]] = ([], [], [])
    for record, candidate, anchor in blocks:
        if len(anchor) != len(record):
            raise ValueError("a block lacks the anchor's times")
        for r, c, a in zip(record[workload], candidate[workload], anchor[workload], strict=True):
            if a is not None:
                for one, value in zip(times, (r, c, a), strict=True):
                    one.append(value)
    if not times[2] or min(min(one) for one in times) <= 0:
        raise ValueError("a workload has no time of the anchor, or one of zero")
    record_log, candidate_log, anchor_log = (math.log(median(one)) for one in times)
    return 100 * (anchor_log - record_log), 100 * (anchor_log - candidate_log)
