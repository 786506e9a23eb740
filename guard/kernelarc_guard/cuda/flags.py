"""The page with a call's go and done: host memory that the guard, a runner and the GPU all map."""

import ctypes
import mmap
import os
import time
from typing import Final

from kernelarc_guard.cuda import driver

SIZE: Final = 8192
_GO: Final = 0
_DONE: Final = 4096
"""On a page of its own: the two are written by different sides."""


class Flags:
    """Both flags of one runner: each holds the number of the call it was set for last."""

    def __init__(self, fd: int) -> None:
        """Map the file `fd` and register it with the current context."""
        self._map = mmap.mmap(fd, SIZE)
        self._go = ctypes.c_uint32.from_buffer(self._map, _GO)
        self._done = ctypes.c_uint32.from_buffer(self._map, _DONE)
        self._address = ctypes.addressof(self._go)
        driver.call("cuMemHostRegister_v2", self._address, SIZE, driver.HOST_FLAGS)
        at = ctypes.c_uint64()
        driver.call("cuMemHostGetDevicePointer_v2", ctypes.byref(at), self._address, 0)
        self.go_at, self.done_at = at.value + _GO, at.value + _DONE

    @property
    def go(self) -> int:
        """Return which call was let go last."""
        return self._go.value

    @go.setter
    def go(self, call: int) -> None:
        self._go.value = call

    def wait_open(self, call: int, closed: int, limit: int) -> int:
        """Wait until a call is let go; return when that was last seen not to be so (`perf_counter_ns`).

        `closed` is a time before go was queued; past `limit` RuntimeError. A guard that the system holds
        up for some microseconds notices go late: counted from that, a call would seem shorter than it
        was, and one held up at done only ever seems longer.
        """
        clock = time.perf_counter_ns
        looked = clock()
        while self.go != call:
            closed = looked
            if closed > limit:
                raise RuntimeError("the guard's own work on the device does not end")
            looked = clock()
        return closed

    @property
    def done(self) -> int:
        """Return which call's work had ended last, as the runner's stream says."""
        return self._done.value

    def close(self) -> None:
        """Give the registration back; nothing on the device may use the page any more."""
        driver.call("cuMemHostUnregister", self._address)


def new_flags() -> int:
    """Return the descriptor of a page with both flags zero."""
    fd = os.memfd_create("flags", os.MFD_CLOEXEC)
    os.ftruncate(fd, SIZE)
    return fd
