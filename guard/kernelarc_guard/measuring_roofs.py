"""Roofs of the device at hand: the vendor's figures, and what it showed (imports torch)."""

import os
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Final

import torch

from kernelarc_guard.cores import runner_cores
from kernelarc_guard.measuring_rulers import memory_speeds
from kernelarc_guard.roofs import MEASURED, Roof, Roofs, at_least, datasheet

_CPU_SIZE: Final = 1024
_GPU_SIZE: Final = 8192
_TRIES: Final = 5


def measure_roofs(place: str, name: str, threads: int) -> Roofs:
    """Return what a device can do; on a CPU what so many of its threads can.

    `name` is the device's. Takes some tenths of a second of an idle device.
    """
    if place == "cpu":
        return _of_cpu(name, threads)
    known = datasheet(name)
    seen = {"bfloat16": _seen(_matrix_rate(place, _GPU_SIZE, torch.bfloat16), "matrix products")}
    if known is None:
        return Roofs(device=name, memory=None, writes=None, matrix=seen)
    best = {dtype: at_least(roof, seen.get(dtype)) or roof for dtype, roof in known.matrix.items()}
    return known.model_copy(update={"matrix": best})


def _of_cpu(name: str, threads: int) -> Roofs:
    writes, copies = memory_speeds()
    cores, before = os.sched_getaffinity(0), torch.get_num_threads()
    os.sched_setaffinity(0, runner_cores(threads))
    torch.set_num_threads(threads)
    try:
        rate = _matrix_rate("cpu", _CPU_SIZE, torch.float32)
    finally:
        torch.set_num_threads(before)
        os.sched_setaffinity(0, cores)
    return Roofs(
        device=name,
        memory=_seen(copies * threads, "copies beyond the caches"),
        writes=_seen(writes * threads, "writes inside the caches"),
        matrix={"float32": _seen(rate, "matrix products")},
    )


def _seen(rate: float, what: str) -> Roof:
    at = datetime.now(UTC).isoformat(timespec="seconds")
    return Roof(per_second=rate, source=f"{MEASURED}the best of some {what}", date=at)


def _matrix_rate(place: str, size: int, dtype: torch.dtype) -> float:
    one, other = (torch.randn(size, size, device=place).to(dtype) for _ in range(2))
    out = torch.empty(size, size, device=place, dtype=dtype)
    best = min(_seconds(place, lambda: torch.mm(one, other, out=out)) for _ in range(_TRIES))
    return 2 * size**3 / best


def _seconds(place: str, step: Callable[[], object]) -> float:
    _wait(place)
    begin = time.perf_counter_ns()
    step()
    _wait(place)
    return max(time.perf_counter_ns() - begin, 1) / 1e9


def _wait(place: str) -> None:
    if place != "cpu":
        torch.cuda.synchronize(place)
