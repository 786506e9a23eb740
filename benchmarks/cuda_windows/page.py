"""The page that both processes of an experiment map: two flags that GPUs and CPUs read and write."""

import ctypes
import mmap
import os
from typing import Final

SIZE: Final = 1 << 16
GO: Final = 0
DONE: Final = 4096
"""On a page of its own: the two are written by different sides."""


class Page:
    """Flags in anonymous shared memory, registered with CUDA on request."""

    def __init__(self, fd: int) -> None:
        """Map the file `fd`."""
        self._map = mmap.mmap(fd, SIZE)
        self._go = ctypes.c_uint32.from_buffer(self._map, GO)
        self._done = ctypes.c_uint32.from_buffer(self._map, DONE)
        self.address = ctypes.addressof(ctypes.c_char.from_buffer(self._map))

    @property
    def go(self) -> int:
        """Return the number of the call that was let go last."""
        return self._go.value

    @go.setter
    def go(self, value: int) -> None:
        self._go.value = value

    @property
    def done(self) -> int:
        """Return the number of the call that ended last."""
        return self._done.value

    @done.setter
    def done(self, value: int) -> None:
        self._done.value = value

    def on_device(self) -> int:
        """Register the page with this process's context and return its address there."""
        from kernelarc_guard.cuda import driver

        driver.call("cuMemHostRegister_v2", self.address, SIZE, driver.HOST_FLAGS)
        found = ctypes.c_uint64()
        driver.call("cuMemHostGetDevicePointer_v2", ctypes.byref(found), self.address, 0)
        return found.value


def new_file() -> int:
    """Return the descriptor of a new page."""
    fd = os.memfd_create("flags", os.MFD_CLOEXEC)
    os.ftruncate(fd, SIZE)
    return fd
