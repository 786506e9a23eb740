"""A/A through the whole path: the record against itself in one or more nurseries (imports torch)."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from kernelarc_guard import decide
from kernelarc_guard.bench import Bench, Contestant, run_pair
from kernelarc_guard.faults import CandidateFault, Refused
from kernelarc_guard.keeper import SLOTS
from kernelarc_guard.nurseries import Nursery
from kernelarc_guard.protocol import PairTimes
from kernelarc_guard.rule import Rulers


@dataclass
class Series:
    """What the pairs of a calibration gave."""

    nurseries: list[list[list[float]]] = field(default_factory=list)
    """Block values in percent, `[nursery][pair][block]`."""
    block_seconds: list[float] = field(default_factory=list)
    pair_seconds: list[float] = field(default_factory=list)
    """What starting each pair cost, without its blocks."""
    rulers: Rulers | None = None


def measure(
    bench: Bench,
    record: Contestant,
    nurseries: list[Callable[[], Nursery]],
    pairs: int,
    blocks: int,
    tell: Callable[[str], None],
    keep: Callable[[PairTimes], None],
) -> Series:
    """Measure `pairs` pairs of `blocks` blocks in each nursery; raises Refused where the record fails.

    The record takes the candidate's place too: its files, its scratch folder, everything of it but
    the solution is the candidate's own.

    A nursery is asked for when its turn comes, `keep` is given every pair.
    """
    weights = bench.problem.weights()
    candidate = replace(record, slot=SLOTS.index("candidate"))
    series = Series()
    for number, start in enumerate(nurseries, start=1):
        nursery = start()
        values: list[list[float]] = []
        for index in range(1, pairs + 1):
            tell(f"calibrating, nursery {number} of {len(nurseries)}, pair {index} of {pairs}")
            clock = _Marks()
            try:
                pair = run_pair(bench, nursery, record, candidate, blocks, clock.mark)
            except CandidateFault as fault:
                raise Refused(
                    f"the record failed ({fault.reason}): {fault.detail}", "record_failed"
                ) from None
            keep(pair)
            block, begin = clock.seconds()
            series.block_seconds.append(block)
            series.pair_seconds.append(begin)
            values.append(
                decide.block_values([(b.record, b.candidate) for b in pair.blocks], weights)
            )
        series.nurseries.append(values)
        # Last: a confirmation's nursery has forked nothing before its first pair either.
        series.rulers = bench.backend.rulers(bench, nursery, record, series.rulers)
    return series


class _Marks:
    """When a pair began and its blocks ended."""

    def __init__(self) -> None:
        self._begin = time.monotonic()
        self._at: list[float] = []

    def mark(self) -> None:
        self._at.append(time.monotonic())

    def seconds(self) -> tuple[float, float]:
        """Return what one block and the start of the pair cost."""
        first, last, more = self._at[0], self._at[-1], len(self._at) - 1
        block = (last - first) / more if more else first - self._begin
        return block, max(first - self._begin - block, 1e-3)
