"""Experiments E2 to E7: each returns rows for a table; the raw numbers go into `raw`."""

import math
import os
import secrets
import time
from collections.abc import Callable
from statistics import median
from typing import Any

from benchmarks.cuda_windows.guardside import (
    KINDS,
    Arm,
    Buffers,
    Device,
    Late,
    Nursery,
    WindowKind,
)
from benchmarks.cuda_windows.launch import load
from benchmarks.cuda_windows.stats import blocks, log_ratio, quartiles, spread
from kernelarc_guard.cuda import driver
from kernelarc_guard.cuda.driver import Allocation

Rows = list[dict[str, Any]]
KERNELS = ("empty", "rms:256", "rms:4096", "gemm:4096")
_BLOCK = 24


def same_kernel_twice(device: Device, nursery: Nursery, raw: dict[str, Any], calls: int) -> Rows:
    """E2: two runners of one kernel, called in turn, on each clock."""
    rows: Rows = []
    for kernel in KERNELS:
        sets = [Buffers(kernel) for _ in range(2)]
        arms = [Arm(device, nursery, one) for one in sets]
        for kind in KINDS:
            times: list[list[dict[str, float]]] = [[], []]
            for index in range(calls + 6):
                first = secrets.randbits(1)
                for turn in (first, 1 - first):
                    seen = arms[turn].window(kind)
                    if index >= 6:
                        times[turn].append(seen)
            raw[f"E2 {kernel} {kind}"] = times
            rows.append({"kernel": kernel, "window": kind, **_row(times)})
        for arm in arms:
            arm.close()
        for one in sets:
            one.close()
    return rows


def _row(times: list[list[dict[str, float]]]) -> dict[str, Any]:
    row: dict[str, Any] = {}
    for name in ("us", "after_go_us", "events_us"):
        one, other = ([t[name] for t in arm] for arm in times)
        ratios = [
            log_ratio(a, b) for a, b in zip(blocks(one, _BLOCK), blocks(other, _BLOCK), strict=True)
        ]
        row |= {
            name: quartiles([*one, *other]),
            f"{name} A/A %": log_ratio(one, other),
            f"{name} block sd %": spread(ratios),
        }
    for name in ("go_us", "sealed_us"):
        row[name] = quartiles([t[name] for arm in times for t in arm])
    return row


def resident_kernel(device: Device, nursery: Nursery, raw: dict[str, Any], times: int) -> Rows:
    """E3: how long the guard's own work takes while a frozen runner's kernel spins."""
    buffers = Buffers("rms:4096")
    arm = Arm(device, nursery, buffers)
    rows: Rows = []
    for state in ("alone", "queued", "queued after a flush", "resident", "resident_full"):
        if state != "alone":
            cheat = state if state.startswith("resident") else ""
            arm.queue(flush=state == "queued after a flush", cheat=cheat)
        row: dict[str, Any] = {"state": state}
        for name, work in _guard_work(device, buffers).items():
            taken = [_timed(device, work) for _ in range(times)]
            raw[f"E3 {state} {name}"] = taken
            row[name] = [*quartiles(taken), round(max(taken), 1)]
        rows.append(row)
        if state != "alone":
            arm.let_go()
            arm.resume()
    arm.close()
    buffers.close()
    return rows


def _guard_work(device: Device, buffers: Buffers) -> dict[str, Callable[[], None]]:
    import ctypes

    x, stream = buffers.all[0], device.stream
    sink = ctypes.c_uint64(device.evicted.address)

    def chain(steps: int, grid: int) -> Callable[[], None]:
        count = ctypes.c_uint32(steps)
        return lambda: device.kernels.launch("chain", grid, 128, stream, count, sink)

    return {
        "nothing (stream query)": lambda: None,
        "evict 256 MiB": device.evict,
        "fill 32 MiB": lambda: driver.call(
            "cuMemcpyDtoDAsync_v2", x.address, device.staged.address, 32 << 20, stream
        ),
        "probe 5 ms": chain(2_000_000, 132),
        "seal 4 KiB": lambda: driver.call(
            "cuMemcpyDtoHAsync_v2", device.pinned, x.address, 4096, stream
        ),
    }


def _timed(device: Device, work: Callable[[], None]) -> float:
    begin = time.perf_counter_ns()
    work()
    device.sync()
    return round((time.perf_counter_ns() - begin) / 1e3, 2)


def early_start(device: Device, nursery: Nursery, raw: dict[str, Any], calls: int) -> Rows:
    """E3: what a kernel gains that waits on the device for its inputs instead of for the go."""
    rows: Rows = []
    kinds: tuple[WindowKind, ...] = ("strict", "strict-cold", "dma", "flag")
    for kernel in ("rms:4096", "gemm:4096"):
        buffers = Buffers(kernel)
        arm = Arm(device, nursery, buffers)
        for kind in kinds:
            seen: dict[str, list[dict[str, float]]] = {"": [], "eager": []}
            for _ in range(calls):
                for cheat, taken in seen.items():
                    taken.append(arm.window(kind, cheat=cheat))
            raw[f"E3 early {kernel} {kind}"] = seen
            row: dict[str, Any] = {"kernel": kernel, "window": kind}
            for name in ("us", "go_us", "after_go_us"):
                row |= {
                    f"{who} {name}": quartiles([one[name] for one in taken])
                    for who, taken in (("honest", seen[""]), ("early", seen["eager"]))
                }
            rows.append(row)
        arm.close()
        buffers.close()
    return rows


def freezes(device: Device, nursery: Nursery, raw: dict[str, Any], count: int) -> Rows:
    """E4: work queued in a frozen runner while the guard allocates, frees and loads modules."""
    buffers = Buffers("rms:256")
    arm = Arm(device, nursery, buffers)
    image = device.cubin.read_bytes()
    worst = dict.fromkeys(("create and map", "allocate", "free", "module"), 0.0)
    late = 0
    for index in range(count):
        if not arm.queue():
            late += 1
        at = _Held()
        steps: dict[str, Callable[[], object]] = {
            "create and map": lambda: Allocation.create(64 << 20, 0).close(),
            "allocate": at.allocate,
            "free": at.free,
        }
        if index % 25 == 0:
            steps["module"] = lambda: load(image)
        for name, step in steps.items():
            begin = time.perf_counter()
            step()
            worst[name] = max(worst[name], time.perf_counter() - begin)
        try:
            arm.let_go()
        except Late:
            late += 1
        arm.resume()
    rows: Rows = [{"what": f"{count} freezes", "outcome": f"{late} late"}]
    rows += [{"what": f"worst {n}", "outcome": f"{s * 1e3:.2f} ms"} for n, s in worst.items()]
    for inside in ("inner_alloc", "inner_free", "inner_module", "inner_torch", "inner_sync"):
        stopped = arm.queue(cheat=inside, seconds=1.0)
        arm.open_go()
        if not stopped:
            stopped_later = arm.stopped(5.0)
            rows.append({"what": inside, "outcome": f"blocked; after go: {stopped_later}"})
        else:
            rows.append({"what": inside, "outcome": "queued"})
        arm.resume()
    raw["E4"] = rows
    arm.close()
    buffers.close()
    return rows


class _Held:
    """One plain allocation of the guard."""

    def allocate(self) -> None:
        """Take 32 MiB."""
        import ctypes

        self._at = ctypes.c_uint64()
        driver.call("cuMemAlloc_v2", ctypes.byref(self._at), 32 << 20)

    def free(self) -> None:
        """Give them back."""
        driver.call("cuMemFree_v2", self._at)


def persisting_lines(device: Device, nursery: Nursery, raw: dict[str, Any], times: int) -> Rows:
    """E5: a kernel's time on 16 MiB after the guard evicted, with lines that were to persist."""
    buffers = Buffers("rms:2048")
    arm = Arm(device, nursery, buffers)
    size = buffers.sent

    def measure(persist: bool, evict: int, reset: bool) -> list[float]:
        taken = []
        for _ in range(times):
            if persist:
                arm.ask("persist", size=size)
            else:
                arm.ask("timed")
            for _ in range(evict):
                device.evict()
            if reset:
                driver.call("cuCtxResetPersistingL2Cache")
            device.sync()
            taken.append(float(arm.ask("timed")["us"]))
        return taken

    cases = {
        "warm": (False, 0, False),
        "persisting": (True, 0, False),
        "evicted": (False, 1, False),
        "persisting, evicted": (True, 1, False),
        "persisting, evicted four times": (True, 4, False),
        "persisting, reset by the guard, evicted": (True, 1, True),
    }
    rows: Rows = []
    for name, case in cases.items():
        taken = measure(*case)
        raw[f"E5 {name}"] = taken
        rows.append({"case": name, "us": quartiles(taken)})
    arm.close()
    buffers.close()
    return rows


def read_only(device: Device, nursery: Nursery, raw: dict[str, Any]) -> Rows:
    """E5: is a descriptor read only for whom it was given to?"""
    buffers = Buffers("rms:256")
    rows: Rows = []
    arm = Arm(device, nursery, buffers)
    fd = buffers.all[0].export()
    said = arm.ask("scribble", fd, size=buffers.all[0].size)["said"]
    rows.append({"what": "importer maps a descriptor writable and writes", "outcome": said})
    os.close(fd)
    fds = tuple(one.export() for one in buffers.all)
    sizes = [one.size for one in buffers.all]
    arm.ask("map", *fds, kernel="rms:256", sizes=sizes, writable=False)
    said = arm.ask("store")["said"]
    rows.append({"what": "store through a read-only mapping", "outcome": said})
    for fd in fds:
        os.close(fd)
    arm.close()
    device.evict()
    device.sync()
    rows.append({"what": "the guard's context after that fault", "outcome": "works"})
    raw["E5 read only"] = rows
    buffers.close()
    return rows


def triggers(device: Device, nursery: Nursery, raw: dict[str, Any], calls: int) -> Rows:
    """E6: the record's windows while the other arm has work behind a trigger."""
    rows: Rows = []
    for case in ("nothing", "timer", "waits, not fired", "fired before"):
        sets = [Buffers("rms:4096") for _ in range(2)]
        record, other = (Arm(device, nursery, one) for one in sets)
        taken: list[dict[str, float]] = []
        row: dict[str, Any] = {"the other arm": case}
        try:
            for index in range(calls + 3):
                seen = _beside(record, other, case)
                if index >= 3:
                    taken.append(seen)
        except Late as late:
            row["outcome"] = str(late)
        raw[f"E6 {case}"] = taken
        for name in ("us", "go_us", "after_go_us", "events_us") if len(taken) > 1 else ():
            values = [one[name] for one in taken]
            row[name] = [*quartiles(values), max(values)]
        rows.append(row)
        record.close()
        other.close()
        for one in sets:
            one.close()
    return rows


def _beside(record: Arm, other: Arm, case: str) -> dict[str, float]:
    """Time one window of the record after a call of the other arm that left something behind."""
    if case == "nothing":
        return record.window("strict-cold")
    other.set_trigger(False)
    if not other.queue(cheat="trigger_timer" if case == "timer" else "trigger_memory"):
        raise Late("the other arm did not stop")
    other.let_go()  # its call ends; what it left behind stays queued
    if case == "fired before":
        other.set_trigger(True)
    seen = record.window("strict-cold")
    other.set_trigger(True)
    other.resume()
    return seen


def carriers(device: Device, nursery: Nursery, raw: dict[str, Any], pairs: int) -> Rows:
    """E7: the offset between two runners with buffers of their own, shared, and drawn anew."""
    rows: Rows = []
    for kernel in ("rms:256", "rms:4096"):
        for case in ("own", "shared", "one pair of runners, buffers anew"):
            fresh = case != "one pair of runners, buffers anew"
            means: dict[str, list[float]] = {"window": [], "events": []}
            within: dict[str, list[float]] = {"window": [], "events": []}
            arms: list[Arm] = []
            for _ in range(pairs):
                one = Buffers(kernel)
                sets = [one, one if case == "shared" else Buffers(kernel)]
                if fresh or not arms:
                    arms = [Arm(device, nursery, each) for each in sets]
                else:
                    for arm, each in zip(arms, sets, strict=True):
                        arm.map(each)
                for name, values in _pair(arms, raw, f"E7 {kernel} {case}").items():
                    means[name].append(sum(values) / len(values))
                    within[name] += [one - means[name][-1] for one in values]
                if fresh:
                    for arm in arms:
                        arm.close()
                for each in sets[: 1 if case == "shared" else 2]:
                    each.close() if fresh else None
            if not fresh:
                for arm in arms:
                    arm.close()
            row: dict[str, Any] = {"kernel": kernel, "buffers": case}
            for name, values in means.items():
                row[f"{name}: sd of pair means %"] = spread(values)
                row[f"{name}: sd of blocks %"] = spread(within[name])
            rows.append(row)
    return rows


def _pair(arms: list[Arm], raw: dict[str, Any], name: str) -> dict[str, list[float]]:
    times: list[list[dict[str, float]]] = [[], []]
    for index in range(4 * _BLOCK + 4):
        first = secrets.randbits(1)
        for arm in (first, 1 - first):
            seen = arms[arm].window("strict-cold")
            if index >= 4:
                times[arm].append(seen)
    found: dict[str, list[float]] = {}
    for label, field in (("window", "after_go_us"), ("events", "events_us")):
        one, other = ([t[field] for t in arm] for arm in times)
        found[label] = [
            100 * math.log(median(a) / median(b))
            for a, b in zip(blocks(one, _BLOCK), blocks(other, _BLOCK), strict=True)
        ]
    raw.setdefault(name, []).append(found)
    return found
