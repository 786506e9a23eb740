"""The guard's side of the experiments: buffers, runners, and the windows that are compared."""

import ctypes
import os
import secrets
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, Final, Literal

from benchmarks.cuda_windows.launch import Kernels
from benchmarks.cuda_windows.page import DONE, GO, Page, new_file
from benchmarks.cuda_windows.runner import TRIGGER
from kernelarc_guard.cuda import driver
from kernelarc_guard.cuda.driver import Allocation
from kernelarc_guard.frames import recv_frame, send_frame

WindowKind = Literal["strict", "strict-poll", "strict-cold", "switch", "dma", "flag", "awake"]
KINDS: Final[tuple[WindowKind, ...]] = (
    "strict",
    "strict-poll",
    "strict-cold",
    "switch",
    "dma",
    "flag",
    "awake",
)
"""What the guard does from its first to its second look at the clock.

strict: fills x by a kernel, opens go, waits for done and copies a line, all in its own stream.
strict-poll: fills x by a kernel and opens go in its stream; its CPU polls done.
strict-cold: the same, and evicts the cache after it has filled x.
switch: opens go in its stream after a kernel that does nothing; x was filled before.
dma: sends x by the copy engine, then opens go; the runner's context stays on the device.
flag: its CPU opens go; x was filled before; the runner's context stays on the device.
awake: wakes the runner, which launches its kernel, waits for it and stops.
"""
EVICT_BYTES: Final = 256 << 20
_LIMIT_SECONDS: Final = 2.0
_LINE: Final = 4096
_REST_SECONDS: Final = 0.001
"""What a flush has to end."""


class Late(Exception):
    """A call did not stop or end in time."""


class Nursery:
    """The process that forks runners."""

    def __init__(self) -> None:
        """Start it and wait until torch is imported."""
        self._channel, theirs = socket.socketpair()
        with theirs:
            command = [sys.executable, "-m", "benchmarks.cuda_windows.runner"]
            self._process = subprocess.Popen(
                [*command, str(theirs.fileno())],
                pass_fds=(theirs.fileno(),),
                # Else a stream that waits can hold up another one in the same channel.
                env=os.environ | {"CUDA_DEVICE_MAX_CONNECTIONS": "32"},
            )
        self.torch = recv_frame(self._channel)[0]["ready"]

    def fork(self) -> tuple[int, socket.socket]:
        """Fork a runner; returns its process id and its channel."""
        ours, theirs = socket.socketpair()
        with theirs:
            send_frame(self._channel, {}, (theirs.fileno(),))
        return recv_frame(self._channel)[0]["pid"], ours

    def close(self) -> None:
        """End it."""
        self._channel.close()
        self._process.wait()


class Device:
    """The guard's context, stream, pinned memory and kernels."""

    def __init__(self, cubin: Path, largest: int) -> None:
        """Open the context; `largest` is the most bytes of one input."""
        driver.open_context(0)
        self.cubin = cubin
        self.kernels = Kernels(cubin)
        self.stream = driver.new_stream()
        self.evicted = Allocation.create(EVICT_BYTES, 0)
        self.arms: list[Arm] = []
        self.staged = Allocation.create(largest, 0)
        self.pinned = pinned(largest)
        ctypes.memmove(self.pinned, _values(largest), largest)
        driver.call("cuMemcpyHtoDAsync_v2", self.staged.address, self.pinned, largest, self.stream)
        self.sync()

    def sync(self) -> None:
        """Wait for the guard's stream."""
        driver.call("cuStreamSynchronize", self.stream)

    def fill(self, target: int, size: int, value: int) -> None:
        """Set memory to a word; runs as a kernel."""
        driver.call("cuMemsetD32Async", target, value, size // 4, self.stream)

    def evict(self) -> None:
        """Write more than the L2 cache holds."""
        self.fill(self.evicted.address, EVICT_BYTES, secrets.randbits(31))


def pinned(size: int) -> int:
    """Return the address of page-locked host memory."""
    address = ctypes.c_void_p()
    driver.call("cuMemAllocHost_v2", ctypes.byref(address), size)
    assert address.value is not None
    return address.value


def _values(size: int) -> bytes:
    """Return random bfloat16 values between 0.5 and 2 in size."""
    raw = bytearray(os.urandom(1 << 20)) * (-(-size // (1 << 20)))
    raw[1::2] = bytes((one & 0x80) | 0x3F for one in raw[1 : 1 << 20 : 2]) * (len(raw) >> 20)
    return bytes(raw[:size])


class Buffers:
    """x, weight and y of one kernel in the guard's memory, one allocation each."""

    def __init__(self, kernel: str) -> None:
        """Allocate what `kernel` needs."""
        kind, _, rows = kernel.partition(":")
        self.kernel = kernel
        matrix = int(rows) ** 2 * 2 if kind == "gemm" else int(rows or 1) * 4096 * 2
        other = matrix if kind == "gemm" else 8192
        self.sent = 8 if kind == "empty" else matrix
        """Bytes of x that change in every call."""
        self.all = [Allocation.create(size, 0) for size in (matrix, other, matrix)]

    def close(self) -> None:
        """Give the memory back."""
        for one in self.all:
            one.close()


class Arm:
    """One runner, stopped whenever the guard does anything."""

    def __init__(self, device: Device, nursery: Nursery, buffers: Buffers) -> None:
        """Fork it and let it open its context."""
        self._device = device
        device.arms.append(self)
        self.pid, self._channel = nursery.fork()
        self._fd = new_file()
        self.page = Page(self._fd)
        at = self.page.on_device()
        self._go, self._done = at + GO, at + DONE
        self._call = 0
        self._shift = 0
        self._ask("open", (self._fd,), cubin=str(device.cubin))
        self.map(buffers)

    def map(self, buffers: Buffers) -> None:
        """Give it other buffers."""
        self.buffers = buffers
        for one in buffers.all:
            driver.call(
                "cuMemcpyDtoDAsync_v2",
                one.address,
                self._device.staged.address,
                min(one.size, self._device.staged.size),
                self._device.stream,
            )
        self._device.sync()
        fds = tuple(one.export() for one in buffers.all)
        sizes = [one.size for one in buffers.all]
        self._ask("map", fds, kernel=buffers.kernel, sizes=sizes)
        for fd in fds:
            os.close(fd)

    def ask(self, op: str, *fds: int, **more: Any) -> dict[str, Any]:
        """Let the running runner do something and wait for its answer."""
        return self._ask(op, fds, **more)

    def _ask(self, op: str, fds: tuple[int, ...], **more: Any) -> dict[str, Any]:
        send_frame(self._channel, {"op": op, **more}, fds)
        return recv_frame(self._channel)[0]

    def queue(
        self, *, flush: bool = True, cheat: str = "", old: int = 0, seconds: float = 2.0
    ) -> bool:
        """Let it queue a call behind its go and stop; says whether it stopped in time."""
        self._call += 1
        frame = {"op": "queue", "call": self._call, "flush": flush, "cheat": cheat, "old": old}
        send_frame(self._channel, frame)
        return self.stopped(seconds)

    def stopped(self, seconds: float) -> bool:
        """Wait until it has stopped itself."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            with open(f"/proc/{self.pid}/stat", "rb") as stat:
                if stat.read().rpartition(b")")[2].split()[0] == b"T":
                    return True
        return False

    def window(self, kind: WindowKind, *, cheat: str = "") -> dict[str, float]:
        """Make one timed call; microseconds from the guard's start to the end (and others)."""
        device = self._device
        device.evict()
        device.sync()
        if kind in ("flag", "awake", "switch"):
            self._send()
            device.sync()
        if kind == "awake":
            return self._awake()
        # With a flag window the inputs are there already: an early kernel need not wait.
        there = kind in ("flag", "switch")
        old = self._last_word() ^ there if cheat == "eager" else 0
        flush = kind in ("flag", "dma")
        if not self.queue(flush=flush, cheat=cheat, old=old):
            raise Late("it did not stop")
        if flush:
            time.sleep(_REST_SECONDS)
        clock = time.perf_counter_ns
        begin = clock()
        if kind == "flag":
            self.page.go = self._call
        elif kind == "dma":
            self._send()
        elif kind == "switch":
            device.fill(device.evicted.address, 4, self._call)
        else:
            self._fill(evict=kind == "strict-cold")
        if kind != "flag":
            driver.call("cuStreamWriteValue32_v2", device.stream, self._go, self._call, 0)
        if kind == "strict":
            driver.call("cuStreamWaitValue32_v2", device.stream, self._done, self._call, 0)
        self._wait_go()
        opened = clock()
        if kind == "strict":
            self._seal()
            end = clock()
        else:
            self._wait_done()
            end = clock()
            self._seal()
        sealed = clock()
        return {
            "us": (end - begin) / 1e3,
            "after_go_us": (end - opened) / 1e3,
            "go_us": (opened - begin) / 1e3,
            "sealed_us": (sealed - begin) / 1e3,
            "events_us": self.resume(),
        }

    def _awake(self) -> dict[str, float]:
        self._call += 1
        send_frame(self._channel, {"op": "awake", "call": self._call})
        if not self.stopped(_LIMIT_SECONDS):
            raise Late("it did not stop")
        begin = time.perf_counter_ns()
        os.kill(self.pid, signal.SIGCONT)
        self._wait_done()
        end = time.perf_counter_ns()
        self.stopped(_LIMIT_SECONDS)
        us = (end - begin) / 1e3
        return {
            "us": us,
            "after_go_us": us,
            "go_us": 0.0,
            "sealed_us": us,
            "events_us": self.resume(),
        }

    def let_go(self) -> None:
        """Open the go of the queued call, and wait for its end."""
        self.page.go = self._call
        self._wait_done()

    def open_go(self) -> None:
        """Open the go and wait for nothing."""
        self.page.go = self._call

    def resume(self) -> float:
        """Wake it and return what its events say (microseconds)."""
        os.kill(self.pid, signal.SIGCONT)
        return float(recv_frame(self._channel)[0]["us"])

    def set_trigger(self, fire: bool) -> None:
        """Write the word that its left-over work waits for."""
        word = self.buffers.all[1].address + TRIGGER
        self._device.fill(word, 4, self._call if fire else 0)
        self._device.sync()

    def _send(self) -> None:
        """Send x from pinned memory by the copy engine."""
        x, device = self.buffers.all[0], self._device
        self._shift ^= 1
        source = device.pinned + self._shift * 2
        size = self.buffers.sent - 4
        # Two bytes off at every other call: no word is what it was.
        driver.call("cuMemcpyHtoDAsync_v2", x.address + 4, source, size, device.stream)

    def _fill(self, evict: bool) -> None:
        """Poison y and fill x from the device's own memory."""
        device, (x, _, y) = self._device, self.buffers.all
        self._shift ^= 1
        source = device.staged.address + self._shift * 4
        size = self.buffers.sent - 4
        device.fill(y.address, min(y.size, self.buffers.sent), 0x7FC0_7FC0)
        driver.call("cuMemcpyDtoDAsync_v2", x.address + 4, source, size, device.stream)
        if evict:
            device.evict()

    def _seal(self) -> None:
        y, device = self.buffers.all[2], self._device
        line = secrets.randbelow(max(1, y.size // _LINE)) * _LINE
        size = min(_LINE, y.size - line)
        driver.call("cuMemcpyDtoHAsync_v2", device.pinned, y.address + line, size, device.stream)
        device.sync()

    def _last_word(self) -> int:
        x, device = self.buffers.all[0], self._device
        word = ctypes.c_uint32()
        at = x.address + x.size - 4
        driver.call("cuMemcpyDtoHAsync_v2", ctypes.addressof(word), at, 4, device.stream)
        device.sync()
        return word.value

    def _wait_go(self) -> None:
        end = time.monotonic() + _LIMIT_SECONDS
        while self.page.go != self._call:
            if time.monotonic() > end:
                raise Late("the inputs were not sent")

    def _wait_done(self) -> None:
        end = time.monotonic() + _LIMIT_SECONDS
        while self.page.done != self._call:
            if time.monotonic() > end:
                raise Late("the call did not end")

    def close(self) -> None:
        """Kill it."""
        self._device.arms.remove(self)
        os.kill(self.pid, signal.SIGKILL)
        self._channel.close()
        driver.call("cuMemHostUnregister", self.page.address)
        os.close(self._fd)
