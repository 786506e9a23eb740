"""NVIDIA's management library through ctypes: what a device's state is. Standard library only.

Nothing is loaded before a `Nvml` is made, so that importing this needs no NVIDIA driver.
"""

import ctypes
from collections.abc import Callable
from ctypes import Structure, byref, c_int, c_uint, c_ulonglong, c_void_p
from typing import Any, Final

_SUCCESS: Final = 0
_NOT_SUPPORTED: Final = 3
_TOO_SMALL: Final = 7
_SM, _MEMORY = 1, 2
_MOST_PROCESSES: Final = 4096
REASONS: Final = {
    0x1: "idle",
    0x2: "application clocks",
    0x4: "power cap",
    0x8: "hardware slowdown",
    0x10: "sync boost",
    0x20: "software thermal slowdown",
    0x40: "hardware thermal slowdown",
    0x80: "power brake",
    0x100: "display clocks",
}
"""What holds clocks down, by NVML's bit."""


class NoNvml(RuntimeError):
    """The management library cannot be used here; one line."""


class _Process(Structure):
    _fields_ = [
        ("pid", c_uint),
        ("used", c_ulonglong),
        ("gpu_instance", c_uint),
        ("compute_instance", c_uint),
    ]


class Nvml:
    """One device, by its UUID. A number is None where the device does not tell it."""

    def __init__(self, uuid: str, library: Any = None) -> None:
        """Open the library (`library`: a stand-in for it); raises NoNvml."""
        if library is None:
            try:
                library = ctypes.CDLL("libnvidia-ml.so.1")
            except OSError as error:
                raise NoNvml(f"libnvidia-ml.so.1 cannot be loaded: {error}") from None
        self._library = library
        library.nvmlErrorString.restype = ctypes.c_char_p
        self._check("nvmlInit_v2")
        self._handle = c_void_p()
        self._check("nvmlDeviceGetHandleByUUID", uuid.encode(), byref(self._handle))

    def sm_mhz(self) -> int | None:
        """Return the clock of the multiprocessors."""
        return self._number("nvmlDeviceGetClockInfo", c_uint, _SM)

    def memory_mhz(self) -> int | None:
        """Return the clock of the memory."""
        return self._number("nvmlDeviceGetClockInfo", c_uint, _MEMORY)

    def power_w(self) -> float | None:
        """Return the power that the board takes, in watts."""
        milliwatts = self._number("nvmlDeviceGetPowerUsage", c_uint)
        return None if milliwatts is None else milliwatts / 1e3

    def temperature_c(self) -> int | None:
        """Return the chip's temperature, in degrees Celsius."""
        return self._number("nvmlDeviceGetTemperature", c_uint, 0)

    def held_by(self) -> list[str] | None:
        """Return what holds the clocks down right now."""
        bits = self._number("nvmlDeviceGetCurrentClocksThrottleReasons", c_ulonglong)
        return None if bits is None else [word for bit, word in REASONS.items() if bits & bit]

    def processes(self) -> dict[int, int] | None:
        """Return the processes with a context on the device, and the bytes that each holds."""
        room = 64
        while True:
            count, table = c_uint(room), (_Process * room)()
            status = self._call(
                "nvmlDeviceGetComputeRunningProcesses_v3", self._handle, byref(count), table
            )
            if status != _TOO_SMALL or room >= _MOST_PROCESSES:
                break
            room *= 4
        if status == _NOT_SUPPORTED:
            return None
        self._raise("nvmlDeviceGetComputeRunningProcesses_v3", status)
        unknown = 2**64 - 1
        return {one.pid: 0 if one.used == unknown else one.used for one in table[: count.value]}

    def lock_clocks(self, mhz: int) -> None:
        """Hold the multiprocessors at one clock; raises NoNvml where that is not allowed."""
        self._check("nvmlDeviceSetGpuLockedClocks", self._handle, c_uint(mhz), c_uint(mhz))

    def free_clocks(self) -> None:
        """Let the clocks go again; raises NoNvml."""
        self._check("nvmlDeviceResetGpuLockedClocks", self._handle)

    def _number(self, function: str, kind: Callable[[], Any], *more: int) -> int | None:
        value = kind()
        status = self._call(function, self._handle, *map(c_int, more), byref(value))
        if status == _NOT_SUPPORTED:
            return None
        self._raise(function, status)
        return int(value.value)

    def _check(self, function: str, *arguments: Any) -> None:
        self._raise(function, self._call(function, *arguments))

    def _call(self, function: str, *arguments: Any) -> int:
        try:
            called = getattr(self._library, function)
        except AttributeError:
            raise NoNvml(f"{function}: this driver's library does not have it") from None
        status: int = called(*arguments)
        return status

    def _raise(self, function: str, status: int) -> None:
        if status != _SUCCESS:
            told = self._library.nvmlErrorString(status) or b"unknown error"
            raise NoNvml(f"{function}: {told.decode('ascii', 'replace')} ({status})")
