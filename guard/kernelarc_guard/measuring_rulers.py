"""Measuring a device's rulers: empty windows, and what one thread can write and copy (imports torch)."""

import ctypes
import mmap
import os
import time
from collections.abc import Callable
from functools import partial
from typing import Final

from kernelarc_guard.bench import Bench, Contestant
from kernelarc_guard.cores import runner_cores
from kernelarc_guard.faults import Refused, SolutionFault
from kernelarc_guard.nurseries import Nursery
from kernelarc_guard.rule import Rulers

_WINDOWS: Final = 300
_WRITTEN: Final = (1 << 17, 1 << 18, 1 << 20, 1 << 22)
"""Bytes of the blocks that are written: one of them suits this machine's caches best."""
_WRITES: Final = 200
_COPIED: Final = 48 << 20
"""Bytes that are copied, from and to: more than what the inner caches hold."""
_COPIES: Final = 4


def measure_rulers(
    bench: Bench, nursery: Nursery, record: Contestant, before: Rulers | None = None
) -> Rulers:
    """Return the best of many tries, and of what was measured `before`.

    Empty windows are those of a runner of `record`; raises Refused where that one does not start.
    """
    try:
        arm = bench.start(nursery, record)
        try:
            windows = arm.empty_windows(_WINDOWS)
        finally:
            arm.close()
    except SolutionFault as fault:
        raise Refused(
            f"the record failed ({fault.reason}): {fault.detail}", "record_failed"
        ) from None
    written, copied = memory_speeds()
    found = Rulers(
        empty_window_ns=min(windows), write_bytes_per_second=written, copy_bytes_per_second=copied
    )
    return found if before is None else _best(before, found)


def memory_speeds() -> tuple[float, float]:
    """Return bytes per second that one thread writes within its caches, and copies beyond them."""
    cores = os.sched_getaffinity(0)
    # On a core of the runners: others may be slower ones.
    os.sched_setaffinity(0, {max(runner_cores(1))})
    try:
        return _write_speed(), _copy_speed()
    finally:
        os.sched_setaffinity(0, cores)


def _best(one: Rulers, other: Rulers) -> Rulers:
    return Rulers(
        empty_window_ns=min(one.empty_window_ns, other.empty_window_ns),
        write_bytes_per_second=max(one.write_bytes_per_second, other.write_bytes_per_second),
        copy_bytes_per_second=max(one.copy_bytes_per_second, other.copy_bytes_per_second),
    )


def _write_speed() -> float:
    """Return bytes per second of the fastest write of a block that was just written."""
    best = 0.0
    for size in _WRITTEN:
        with _Memory(size) as memory:
            shortest = _shortest(partial(ctypes.memset, memory.at, 0xA5, size), _WRITES)
            best = max(best, size / shortest)
    return best


def _copy_speed() -> float:
    """Return bytes per second, read and written together, of the fastest copy beyond the caches."""
    with _Memory(_COPIED) as source, _Memory(_COPIED) as target:
        shortest = _shortest(partial(ctypes.memmove, target.at, source.at, _COPIED), _COPIES)
    return 2 * _COPIED / shortest


def _shortest(step: Callable[[], object], times: int) -> float:
    """Return the seconds of the shortest of so many runs."""
    spent = []
    for _ in range(times):
        begin = time.perf_counter_ns()
        step()
        spent.append(time.perf_counter_ns() - begin)
    return max(min(spent), 1) / 1e9


class _Memory:
    """Anonymous memory that has all its pages."""

    def __init__(self, size: int) -> None:
        self._map = mmap.mmap(-1, size)
        self._pin = ctypes.c_char.from_buffer(self._map)
        self.at = ctypes.addressof(self._pin)
        ctypes.memset(self.at, 0x5A, size)

    def __enter__(self) -> "_Memory":
        return self

    def __exit__(self, *_: object) -> None:
        del self._pin
        self._map.close()
