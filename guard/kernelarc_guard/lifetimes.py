"""One round with the arms in separate lifetimes: record alone, candidate alone (imports torch)."""

import secrets
from collections.abc import Callable
from functools import partial

from kernelarc_guard.anchor_arm import anchor_failed
from kernelarc_guard.arm import Arm, CallBlocks
from kernelarc_guard.bench import Bench, Contestant, Outputs
from kernelarc_guard.draws import Draw
from kernelarc_guard.faults import SolutionFault
from kernelarc_guard.live_pair import blame
from kernelarc_guard.nurseries import Nursery
from kernelarc_guard.protocol import BlockTimes, PairTimes
from kernelarc_guard.thrifty import times_alone

Times = list[list[list[int]]]
"""Nanoseconds, `[block][workload][call]`."""


def run_round(
    bench: Bench,
    nursery: Nursery,
    record: Contestant,
    candidate: Contestant,
    blocks: int,
    tick: Callable[[], None],
    others: int = 1,
    anchor: Contestant | None = None,
) -> PairTimes:
    """Measure each arm while no runner of the other lives; a coin says which is first.

    The anchor has its turn last. The candidate's calls of another sort are `others` times as many as a
    round has. Raises CandidateFault where the candidate fails, Refused where the record or the anchor
    does.
    """
    try:
        return _run_round(bench, nursery, record, candidate, blocks, tick, others, anchor)
    except CallBlocks:
        bench.hold_awake()
    return _run_round(bench, nursery, record, candidate, blocks, tick, others, anchor)


def _run_round(
    bench: Bench,
    nursery: Nursery,
    record: Contestant,
    candidate: Contestant,
    blocks: int,
    tick: Callable[[], None],
    others: int,
    anchor: Contestant | None,
) -> PairTimes:
    record_first = secrets.randbits(1) == 1
    times: dict[bool, Times] = {}
    for is_record in (record_first, not record_first):
        try:
            who, more = (record, 1) if is_record else (candidate, others)
            times[is_record] = _life(bench, nursery, who, blocks, tick, more)
        except SolutionFault as fault:
            raise blame(fault, is_record) from None
    beside: Times = [[] for _ in range(blocks)]
    if anchor is not None:
        try:
            beside = _life(bench, nursery, anchor, blocks, lambda: None, 1)
        except SolutionFault as fault:
            raise anchor_failed(fault.reason, fault.detail) from None
    return PairTimes(
        record_first=record_first,
        blocks=[
            BlockTimes(record=one, candidate=other, anchor=[[*calls] for calls in third])
            for one, other, third in zip(times[True], times[False], beside, strict=True)
        ],
    )


def _life(
    bench: Bench,
    nursery: Nursery,
    who: Contestant,
    blocks: int,
    tick: Callable[[], None],
    others: int,
) -> Times:
    """Measure one arm from its start to its end; raises SolutionFault."""
    bench.fork_ahead(nursery, 1)
    arm = bench.start(nursery, who)
    try:
        arm.wait_mapped()
        bench.dying.bury()  # nobody else's runner is there any more
        arm.begin_loading()
        bench.refill(nursery, least=2)  # for the next lifetimes, while this one loads
        arm.wait_loaded()
        with bench.backend.holding():
            return _alone(bench, nursery, arm, blocks, tick, others)
    finally:
        bench.part_with([arm])


def _alone(
    bench: Bench,
    nursery: Nursery,
    arm: Arm,
    blocks: int,
    tick: Callable[[], None],
    others: int,
) -> Times:
    """Return nanoseconds, `[block][workload][call]`."""
    if bench.drawer.thrifty:
        return times_alone(bench, arm, blocks, tick)
    line = _Line(bench, arm)
    for workload in bench.drawer.indices:
        for _ in range(bench.warmups(workload)):
            line.call(workload, bench.drawer.draw(workload), checked=True, evict=False)
    bench.be_quiet(nursery)
    measured = []
    for _ in range(blocks):
        block = []
        for workload in bench.drawer.indices:
            audited = secrets.randbelow(bench.calls_alone)
            times, last = list[int](), None
            for index in range(bench.calls_alone):
                while bench.another_alone(others):
                    line.check()  # its answer is at hand only until the next draw's
                    for other, renew in bench.unannounced(workload, last):
                        draw = other or bench.drawer.draw(workload)
                        line.call(workload, draw, checked=True, renew=renew)
                        line.check()
                last = bench.drawer.draw(workload)
                times.append(line.call(workload, last, checked=index == audited))
            block.append(times)
        line.check()
        measured.append(block)
        tick()
    return measured


class _Line:
    """The calls of one arm: each is checked while the next one is being launched."""

    def __init__(self, bench: Bench, arm: Arm) -> None:
        self._bench = bench
        self._arm = arm
        self._due: Callable[[], None] | None = None

    def call(
        self, workload: int, draw: Draw, *, checked: bool, evict: bool = True, renew: bool = False
    ) -> int:
        """Time one call; its output is checked at the next one, or by `check`."""
        arm = self._arm
        arm.begin(workload, draw, evict=evict, renew=renew)
        self.check()
        elapsed = arm.finish()
        outputs: Outputs = arm.outputs(workload)
        self._due = partial(self._check, workload, draw, checked, elapsed, outputs)
        return elapsed

    def check(self) -> None:
        """Check the last output, if that is still to be done; raises SolutionFault."""
        due, self._due = self._due, None
        if due is not None:
            due()

    def _check(
        self, workload: int, draw: Draw, checked: bool, elapsed: int, outputs: Outputs
    ) -> None:
        """With no other arm to compare with, the oracle alone answers for an output."""
        bench = self._bench
        if checked or bench.audited(workload, elapsed) or bench.oracle_is_cheap(workload, elapsed):
            result = bench.judge(workload, outputs, draw)
            if not result.ok:
                raise SolutionFault(
                    result.reason or "wrong_result",
                    result.detail if draw.kind == "own" else f"with {draw.kind}: {result.detail}",
                    workload,
                )
