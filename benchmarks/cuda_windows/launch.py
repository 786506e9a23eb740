"""Kernels of `kernels.cu`, compiled with nvcc and launched through the driver."""

import ctypes
import subprocess
from functools import lru_cache
from pathlib import Path

from kernelarc_guard.cuda import driver

_SOURCE = Path(__file__).with_name("kernels.cu")


def compile_kernels(folder: Path) -> Path:
    """Compile them into `folder`; returns the cubin."""
    made = folder / "kernels.cubin"
    subprocess.run(
        ["nvcc", "-arch=sm_90", "-O3", "-cubin", "-o", str(made), str(_SOURCE)], check=True
    )
    return made


class Kernels:
    """The loaded module; a context must be current."""

    def __init__(self, cubin: Path) -> None:
        """Load the module."""
        self._image = cubin.read_bytes()
        self._module = load(self._image)
        self._functions: dict[str, ctypes.c_void_p] = {}

    def launch(self, name: str, grid: int, block: int, stream: int, *arguments: object) -> None:
        """Launch one kernel; arguments are ctypes values."""
        if name not in self._functions:
            found = ctypes.c_void_p()
            driver.call(
                "cuModuleGetFunction", ctypes.byref(found), self._module, _text(name.encode())
            )
            self._functions[name] = found
        pointers = (ctypes.c_void_p * max(len(arguments), 1))(
            *(ctypes.addressof(one) for one in arguments)  # type: ignore[arg-type]
        )
        function = self._functions[name]
        driver.call("cuLaunchKernel", function, grid, 1, 1, block, 1, 1, 0, stream, pointers, None)


def load(image: bytes) -> ctypes.c_void_p:
    """Load a cubin into the current context."""
    module = ctypes.c_void_p()
    driver.call("cuModuleLoadData", ctypes.byref(module), image)
    return module


@lru_cache(maxsize=32)
def _text(data: bytes) -> ctypes.Array[ctypes.c_char]:
    return ctypes.create_string_buffer(data)


def new_event() -> ctypes.c_void_p:
    """Return an event that takes times."""
    event = ctypes.c_void_p()
    driver.call("cuEventCreate", ctypes.byref(event), 0)
    return event


def elapsed_us(first: ctypes.c_void_p, last: ctypes.c_void_p) -> float:
    """Return the microseconds between two recorded events, once the second has happened."""
    driver.call("cuEventSynchronize", last)
    value = ctypes.c_float()
    driver.call("cuEventElapsedTime_v2", ctypes.byref(value), first, last)
    return value.value * 1e3
