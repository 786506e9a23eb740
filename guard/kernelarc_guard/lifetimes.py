"""One round with the arms in separate lifetimes: record alone, candidate alone (imports torch)."""

import secrets
from collections.abc import Callable

from kernelarc_guard.arm import Arm, CallBlocks
from kernelarc_guard.bench import Bench, Contestant, Outputs, blame
from kernelarc_guard.draws import Draw
from kernelarc_guard.faults import SolutionFault
from kernelarc_guard.nurseries import Nursery
from kernelarc_guard.protocol import BlockTimes, PairTimes


def run_round(
    bench: Bench,
    nursery: Nursery,
    record: Contestant,
    candidate: Contestant,
    blocks: int,
    tick: Callable[[], None],
) -> PairTimes:
    """Measure each arm while no runner of the other lives; a coin says which is first.

    Raises CandidateFault where the candidate fails, Refused where the record does.
    """
    try:
        return _run_round(bench, nursery, record, candidate, blocks, tick)
    except CallBlocks:
        bench.hold_awake()
    return _run_round(bench, nursery, record, candidate, blocks, tick)


def _run_round(
    bench: Bench,
    nursery: Nursery,
    record: Contestant,
    candidate: Contestant,
    blocks: int,
    tick: Callable[[], None],
) -> PairTimes:
    record_first = secrets.randbits(1) == 1
    times: dict[bool, list[list[list[int]]]] = {}
    for is_record in (record_first, not record_first):
        try:
            arm = bench.start(nursery, record if is_record else candidate)
        except SolutionFault as fault:
            raise blame(fault, is_record) from None
        try:
            with bench.backend.holding():
                times[is_record] = _alone(bench, arm, blocks, tick)
        except SolutionFault as fault:
            raise blame(fault, is_record) from None
        finally:
            arm.close()
    return PairTimes(
        record_first=record_first,
        blocks=[
            BlockTimes(record=one, candidate=other)
            for one, other in zip(times[True], times[False], strict=True)
        ],
    )


def _alone(bench: Bench, arm: Arm, blocks: int, tick: Callable[[], None]) -> list[list[list[int]]]:
    """Return nanoseconds, `[block][workload][call]`."""
    for workload in bench.drawer.indices:
        for _ in range(bench.schedule.warmup_calls):
            _call(bench, arm, workload, checked=True, evict=False)
    measured = []
    for _ in range(blocks):
        block = []
        for workload in bench.drawer.indices:
            audited = secrets.randbelow(bench.schedule.calls)
            times, last = list[int](), None
            for index in range(bench.schedule.calls):
                # As many of another sort as are timed: what is honest in correctness only and
                # looks at a sample of its inputs afterwards has to meet them before a KEEP.
                while secrets.randbits(1):
                    other, renew = bench.unannounced(workload, last)
                    _call(bench, arm, workload, checked=True, draw=other, renew=renew)
                last = bench.drawer.draw(workload)
                times.append(_call(bench, arm, workload, checked=index == audited, draw=last))
            block.append(times)
        measured.append(block)
        tick()
    return measured


def _call(
    bench: Bench,
    arm: Arm,
    workload: int,
    checked: bool,
    evict: bool = True,
    draw: Draw | None = None,
    renew: bool = False,
) -> int:
    """Time one call; with no other arm to compare with, the oracle alone answers for its output."""
    draw = draw or bench.drawer.draw(workload)
    elapsed = arm.call(workload, draw, evict=evict, renew=renew)
    outputs: Outputs = arm.outputs(workload)
    if checked or bench.audited(workload, elapsed) or bench.oracle_is_cheap(workload, elapsed):
        result = bench.judge(workload, outputs, bench.answer(workload, draw))
        if not result.ok:
            raise SolutionFault(
                result.reason or "wrong_result",
                result.detail if draw.kind == "own" else f"with {draw.kind}: {result.detail}",
                workload,
            )
    return elapsed
