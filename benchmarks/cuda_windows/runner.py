"""The runner's side of the experiments: imports torch warm, forks, queues work and stops itself.

Run as ``python -m benchmarks.cuda_windows.runner FD``: the nursery. It forks one runner per request.
"""

import ctypes
import os
import signal
import socket
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.cuda_windows.launch import Kernels, elapsed_us, load, new_event
from benchmarks.cuda_windows.page import DONE, GO, Page
from kernelarc_guard.cuda import driver
from kernelarc_guard.cuda.driver import Allocation
from kernelarc_guard.frames import FrameError, recv_frame, send_frame

FLUSH_BYTES = 256 << 20
_SPIN_NS = 50_000_000
_STAY_NS = 2_000_000_000
TRIGGER = 1 << 20
"""Where, behind the weight, lies the word that fires a trigger."""


def nursery() -> None:
    """Import torch and fork runners until the channel closes."""
    channel = socket.socket(fileno=int(sys.argv[1]))
    import torch

    torch.set_num_threads(1)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    send_frame(channel, {"ready": torch.__version__})
    while True:
        try:
            _, fds = recv_frame(channel)
        except FrameError:
            return
        pid = os.fork()
        if pid == 0:
            channel.close()
            try:
                Runner(socket.socket(fileno=fds[0])).serve()
            except FrameError:
                os._exit(0)
            except (RuntimeError, OSError, ValueError, TypeError, AttributeError):
                traceback.print_exc()
                os._exit(1)
        os.close(fds[0])
        send_frame(channel, {"pid": pid})


class Runner:
    """One solution's process."""

    def __init__(self, channel: socket.socket) -> None:
        self._channel = channel
        self._buffers: list[Allocation] = []
        self._work: Callable[[int], None] = lambda stream: None

    def serve(self) -> None:
        """Answer frames until the channel closes."""
        while True:
            frame, fds = recv_frame(self._channel)
            answer = getattr(self, frame.pop("op"))(fds, **frame)
            send_frame(self._channel, answer or {})

    def open(self, fds: list[int], cubin: str) -> dict[str, Any]:
        """Open the context and everything a call needs."""
        import torch

        driver.open_context(0)
        self._torch: Any = torch
        self._page = Page(fds[0])
        at = self._page.on_device()
        self._go, self._done = at + GO, at + DONE
        self._kernels = Kernels(Path(cubin))
        self._stream = self._torch.cuda.Stream()
        self._main = self._stream.cuda_stream
        self._side = driver.new_stream()
        # Of another priority, so that it shares no channel with the others.
        self._urgent = self._torch.cuda.Stream(priority=-1).cuda_stream
        self._flush = Allocation.create(FLUSH_BYTES, 0)
        self._events = [new_event() for _ in range(3)]
        # A kernel's first launch loads it, which waits for everything that is queued.
        word = ctypes.c_uint64(self._flush.address)
        self._kernels.launch("chain", 1, 1, self._main, ctypes.c_uint32(0), word)
        self._spin(1, word, 0, 0)
        driver.call("cuCtxSynchronize")
        return {}

    def map(
        self, fds: list[int], kernel: str, sizes: list[int], writable: bool = True
    ) -> dict[str, Any]:
        """Map x, weight and y, and choose the kernel; earlier buffers are unmapped."""
        driver.call("cuCtxSynchronize")
        self._work = lambda stream: None
        for one in self._buffers:
            one.close()
        self._buffers = [
            Allocation.from_fd(fd, size, 0, writable) for fd, size in zip(fds, sizes, strict=True)
        ]
        for fd in fds:
            os.close(fd)
        self._work = self._kernel(kernel)
        return {}

    def _kernel(self, kernel: str) -> Callable[[int], None]:
        kind, _, rows = kernel.partition(":")
        if kind == "empty":
            return lambda stream: self._kernels.launch("empty", 1, 32, stream)
        pointers = [ctypes.c_uint64(one.address) for one in self._buffers]
        if kind == "rms":
            return lambda stream: self._kernels.launch("rms", int(rows), 512, stream, *pointers)
        a, b, y = (self._matrix(one, int(rows)) for one in self._buffers)

        def gemm(stream: int) -> None:
            with self._torch.cuda.stream(self._torch.cuda.ExternalStream(stream)):
                self._torch.matmul(a, b, out=y)

        for stream in (self._main, self._side):
            gemm(stream)
        driver.call("cuCtxSynchronize")
        return gemm

    def _matrix(self, buffer: Allocation, size: int) -> Any:
        class Raw:
            __cuda_array_interface__ = {
                "shape": (size * size,),
                "typestr": "<i2",
                "data": (buffer.address, False),
                "version": 2,
            }

        flat = self._torch.as_tensor(Raw(), device="cuda:0")
        return flat.view(self._torch.bfloat16).view(size, size)

    def queue(
        self, fds: list[int], call: int, flush: bool = True, cheat: str = "", old: int = 0
    ) -> dict[str, Any]:
        """Queue one call behind its go, stop, and tell afterwards what the events say."""
        first, last, _ = self._events
        if flush:
            driver.call("cuMemsetD32Async", self._flush.address, call, FLUSH_BYTES // 4, self._main)
        driver.call("cuStreamWaitValue32_v2", self._main, self._go, call, driver.WAIT_GEQ)
        if cheat == "eager":
            self._eager(old)
        else:
            if cheat:
                getattr(self, f"_{cheat}")(call)
            driver.call("cuEventRecord", first, self._main)
            self._work(self._main)
            driver.call("cuEventRecord", last, self._main)
        driver.call("cuStreamWriteValue32_v2", self._main, self._done, call, 0)
        os.kill(os.getpid(), signal.SIGSTOP)
        driver.call("cuCtxSynchronize")
        return {"us": 0.0 if cheat == "eager" else elapsed_us(first, last)}

    def awake(self, fds: list[int], call: int) -> dict[str, Any]:
        """Stop; when woken, make one call, wait for it and stop again."""
        first, last, _ = self._events
        driver.call("cuMemsetD32Async", self._flush.address, call, FLUSH_BYTES // 4, self._main)
        os.kill(os.getpid(), signal.SIGSTOP)
        driver.call("cuEventRecord", first, self._main)
        self._work(self._main)
        driver.call("cuEventRecord", last, self._main)
        driver.call("cuStreamSynchronize", self._main)
        self._page.done = call
        os.kill(os.getpid(), signal.SIGSTOP)
        return {"us": elapsed_us(first, last)}

    def persist(self, fds: list[int], size: int) -> dict[str, Any]:
        """Ask that the first `size` bytes of x stay in the L2 cache, and read them twice."""
        driver.call("cuCtxSetLimit", 6, size)
        value = _Window(self._buffers[0].address, size, 1.0, 2, 0)
        driver.call("cuStreamSetAttribute", self._main, 1, ctypes.byref(value))
        for _ in range(2):
            self._work(self._main)
        driver.call("cuStreamSynchronize", self._main)
        plain = _Window(self._buffers[0].address, 0, 0.0, 0, 0)
        driver.call("cuStreamSetAttribute", self._main, 1, ctypes.byref(plain))
        return {}

    def timed(self, fds: list[int]) -> dict[str, Any]:
        """Make one call now and tell how long it took by events."""
        first, last, _ = self._events
        driver.call("cuEventRecord", first, self._main)
        self._work(self._main)
        driver.call("cuEventRecord", last, self._main)
        return {"us": elapsed_us(first, last)}

    def scribble(self, fds: list[int], size: int) -> dict[str, Any]:
        """Map a descriptor that was meant to be read only, and write through it."""
        try:
            mapped = Allocation.from_fd(fds[0], size, 0, True)
            driver.call("cuMemsetD32Async", mapped.address, 0xBAD, 4, self._main)
            driver.call("cuStreamSynchronize", self._main)
        except driver.CudaError as error:
            return {"said": str(error)}
        return {"said": "written"}

    def store(self, fds: list[int]) -> dict[str, Any]:
        """Write to x, which is mapped read only; the context is gone if that faults."""
        try:
            driver.call("cuMemsetD32Async", self._buffers[0].address, 0xBAD, 4, self._main)
            driver.call("cuStreamSynchronize", self._main)
        except driver.CudaError as error:
            return {"said": str(error)}
        return {"said": "written"}

    # What a hostile solution does in its call, while the host waits for nothing.

    def _eager(self, old: int) -> None:
        """Start as soon as the last word of x is no longer `old`; the go only ends the call."""
        x = self._buffers[0]
        word = ctypes.c_uint64(x.address + x.size - 4)
        self._spin(1, word, old)
        self._work(self._side)
        event = self._events[2]
        driver.call("cuEventRecord", event, self._side)
        driver.call("cuStreamWaitEvent", self._main, event, 0)

    def _resident(self, call: int) -> None:
        self._spin(1, ctypes.c_uint64(self._go), call - 1, _STAY_NS)

    def _resident_full(self, call: int) -> None:
        self._spin(132 * 4, ctypes.c_uint64(self._go), call - 1, _STAY_NS)

    def _spin(self, grid: int, word: ctypes.c_uint64, old: int, limit: int = _SPIN_NS) -> None:
        self._kernels.launch(
            "spin_until", grid, 32, self._side, word, ctypes.c_uint32(old), ctypes.c_uint64(limit)
        )

    def _trigger_memory(self, call: int) -> None:
        """Let heavy work start when somebody writes a word of its memory."""
        word = self._buffers[1].address + TRIGGER
        stream = self._urgent
        driver.call("cuStreamWaitValue32_v2", stream, word, call, driver.WAIT_GEQ)
        self._heavy(stream)

    def _trigger_timer(self, call: int) -> None:
        """Let heavy work start in 3 ms, from a small kernel that stays."""
        self._spin(1, ctypes.c_uint64(self._buffers[1].address), self._first_word(), 3_000_000)
        self._heavy(self._side)

    def _heavy(self, stream: int) -> None:
        steps = ctypes.c_uint32(1_000_000)
        self._kernels.launch(
            "chain", 132 * 8, 256, stream, steps, ctypes.c_uint64(self._flush.address)
        )

    def _first_word(self) -> int:
        word = ctypes.c_uint32()
        at = self._buffers[1].address
        driver.call("cuMemcpyDtoHAsync_v2", ctypes.addressof(word), at, 4, self._side)
        driver.call("cuStreamSynchronize", self._side)
        return word.value

    # What an honest solution may do on the host while its call is queued.

    def _inner_alloc(self, call: int) -> None:
        at = ctypes.c_uint64()
        driver.call("cuMemAlloc_v2", ctypes.byref(at), 512 << 20)
        self._held = at

    def _inner_free(self, call: int) -> None:
        driver.call("cuMemFree_v2", self._held)

    def _inner_module(self, call: int) -> None:
        load(self._kernels._image)

    def _inner_torch(self, call: int) -> None:
        with self._torch.cuda.stream(self._stream):
            self._torch.empty(777 << 20, dtype=self._torch.uint8, device="cuda").fill_(1)

    def _inner_sync(self, call: int) -> None:
        driver.call("cuStreamSynchronize", self._main)


class _Window(ctypes.Structure):
    """CUlaunchAttributeValue with an access policy window."""

    _fields_ = [
        ("base", ctypes.c_uint64),
        ("bytes", ctypes.c_size_t),
        ("hit_ratio", ctypes.c_float),
        ("hit", ctypes.c_int),
        ("miss", ctypes.c_int),
        ("pad", ctypes.c_ubyte * 36),
    ]


if __name__ == "__main__":
    nursery()
