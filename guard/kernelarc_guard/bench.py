"""Side-by-side measurement of two solutions: fresh pairs, blocks, and a check of every output.

Imports torch. Both arms of a call get the same fresh inputs, one after the other in random order.
"""

import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import torch

from kernelarc_guard.arm import Arm
from kernelarc_guard.build import Built
from kernelarc_guard.cores import runner_cores
from kernelarc_guard.draws import Draw, Drawer
from kernelarc_guard.faults import CandidateFault, Refused, SolutionFault
from kernelarc_guard.nurseries import Nursery
from kernelarc_guard.oracle import Oracle
from kernelarc_guard.problem import Problem
from kernelarc_guard.protocol import BlockTimes, PairTimes, Schedule
from kernelarc_guard.solution import Solution
from kernelarc_guard.tolerance import Comparison, compare

Outputs = dict[str, torch.Tensor]
_CHEAP_NS = 20_000_000
_CHEAP_KERNELS = 20
"""The oracle answers every call where it costs less than this many kernels (or 20 ms)."""


@dataclass(frozen=True)
class Contestant:
    """A solution that was built."""

    solution: Solution
    built: Built
    scratch: Path


@dataclass
class Bench:
    """What both arms of a problem share: inputs, oracle, schedule."""

    problem: Problem
    schedule: Schedule
    oracle: Oracle
    drawer: Drawer
    oracle_ns: dict[int, int] = field(default_factory=dict)
    """Cost of the oracle per workload, as last seen."""
    worst: dict[int, Comparison] = field(default_factory=dict)
    """The candidate's largest error per workload."""

    def start(self, nursery: Nursery, contestant: Contestant) -> Arm:
        """Fork a runner for one solution; raises SolutionFault."""
        return Arm(
            nursery,
            contestant.solution,
            contestant.built,
            self.drawer,
            self.schedule,
            contestant.scratch,
            runner_cores(self.drawer.threads),
        )

    def expected(self, workload: int, draw: Draw) -> Outputs:
        """Return the oracle's answer."""
        begin = time.perf_counter_ns()
        answer = self.oracle.expected(self.problem.workloads[workload], draw.inputs)
        self.oracle_ns[workload] = time.perf_counter_ns() - begin
        return answer

    def judge(self, workload: int, outputs: Outputs, expected: Outputs) -> Comparison:
        """Compare one call's outputs with the oracle's."""
        definition = self.problem.definition
        tolerance = self.problem.workloads[workload].tolerance
        return compare(outputs, expected, tolerance, definition)

    def check(self, workload: int, outputs: Outputs, draw: Draw) -> None:
        """Raise SolutionFault where outputs are outside the tolerance; remember the largest error."""
        result = self.judge(workload, outputs, self.expected(workload, draw))
        before = self.worst.get(workload)
        if before is None or result.max_absolute_error >= before.max_absolute_error:
            self.worst[workload] = result
        if not result.ok:
            raise SolutionFault(result.reason or "wrong_result", result.detail, workload)

    def oracle_is_cheap(self, workload: int, kernel_ns: int) -> bool:
        """Say whether every timed call can be checked against the oracle."""
        cost = self.oracle_ns.get(workload, 0)
        return cost <= max(_CHEAP_NS, _CHEAP_KERNELS * kernel_ns)


def run_pair(
    bench: Bench,
    nursery: Nursery,
    record: Contestant,
    candidate: Contestant,
    blocks: int,
    tick: Callable[[], None],
) -> PairTimes:
    """Measure one fresh pair of runners.

    Raises CandidateFault where the candidate fails, Refused where the record does.
    """
    record_first = secrets.randbits(1) == 1
    arms: dict[bool, Arm] = {}
    try:
        for is_record in (record_first, not record_first):
            arms[is_record] = _start(bench, nursery, record if is_record else candidate, is_record)
        pair = _Pair(bench, record=arms[True], candidate=arms[False])
        for workload in bench.drawer.indices:
            for _ in range(bench.schedule.warmup_calls):
                pair.call(workload, checked=True, evict=False)
        times = []
        for _ in range(blocks):
            times.append(pair.block())
            tick()
        return PairTimes(record_first=record_first, blocks=times)
    finally:
        for arm in arms.values():
            arm.close()


def _start(bench: Bench, nursery: Nursery, who: Contestant, is_record: bool) -> Arm:
    try:
        return bench.start(nursery, who)
    except SolutionFault as fault:
        raise _blame(fault, is_record) from None


def _blame(fault: SolutionFault, is_record: bool) -> CandidateFault | Refused:
    if is_record:
        return Refused(f"the record failed ({fault.reason}): {fault.detail}")
    return CandidateFault(fault.reason, fault.detail, fault.workload)


class _Pair:
    """The two live runners of a pair."""

    def __init__(self, bench: Bench, record: Arm, candidate: Arm) -> None:
        self._bench = bench
        self._arms = {True: record, False: candidate}
        self._kernel_ns: dict[int, int] = {}

    def block(self) -> BlockTimes:
        """Time `schedule.calls` calls of each arm on every workload."""
        record, candidate = [], []
        for workload in self._bench.drawer.indices:
            audited = secrets.randbelow(self._bench.schedule.calls)
            times = [
                self.call(workload, checked=index == audited)
                for index in range(self._bench.schedule.calls)
            ]
            record.append([t[True] for t in times])
            candidate.append([t[False] for t in times])
        return BlockTimes(record=record, candidate=candidate)

    def call(self, workload: int, checked: bool, evict: bool = True) -> dict[bool, int]:
        """Call both arms on the same fresh inputs; returns nanoseconds by `is_record`.

        Every output is checked: against the oracle where that is cheap or the call was drawn for
        it, else against the other arm's, with the oracle deciding a disagreement.
        """
        bench = self._bench
        draw = bench.drawer.draw(workload)
        first = secrets.randbits(1) == 1
        elapsed: dict[bool, int] = {}
        outputs: dict[bool, Outputs] = {}
        for is_record in (first, not first):
            try:
                elapsed[is_record] = self._arms[is_record].call(workload, draw, evict)
                outputs[is_record] = self._arms[is_record].outputs(workload)
            except SolutionFault as fault:
                raise _blame(fault, is_record) from None
        kernel = min(elapsed.values())
        # Seen only after both windows are sealed: which calls are audited cannot be known before.
        if checked or bench.oracle_is_cheap(workload, kernel):
            self._against_oracle(workload, outputs, draw, both=checked)
        elif not bench.judge(workload, outputs[False], outputs[True]).ok:
            self._against_oracle(workload, outputs, draw, both=True)
        return elapsed

    def _against_oracle(
        self, workload: int, outputs: dict[bool, Outputs], draw: Draw, both: bool
    ) -> None:
        bench = self._bench
        try:
            bench.check(workload, outputs[False], draw)
        except SolutionFault as fault:
            raise _blame(fault, is_record=False) from None
        if both:
            result = bench.judge(workload, outputs[True], bench.expected(workload, draw))
            if not result.ok:
                raise Refused(f"the record failed ({result.reason}): {result.detail}")
