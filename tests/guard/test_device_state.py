"""A GPU's state: what NVML is asked, who counts as another, and what is worth saying."""

import os
from collections.abc import Callable
from typing import Any

import pytest

from kernelarc_guard.cuda.nvml import NoNvml, Nvml
from kernelarc_guard.cuda.watching import others
from kernelarc_guard.device_state import DeviceState, OtherProcess, noteworthy

FREE = 100 << 30


class Library:
    """Stands in for libnvidia-ml: answers by name, and remembers what was asked."""

    def __init__(self, lacks: tuple[str, ...] = (), **answers: Callable[..., int]) -> None:
        self.lacks = lacks
        self.answers: dict[str, Callable[..., int]] = answers
        self.asked: list[str] = []

    def __getattr__(self, name: str) -> "Function":
        if name in self.__dict__["lacks"]:
            raise AttributeError(name)
        function = Function(self, name)
        self.__dict__[name] = function
        return function


class Function:
    """One of its functions; ctypes sets what it returns."""

    restype: object = None

    def __init__(self, library: Library, name: str) -> None:
        self.library = library
        self.name = name

    def __call__(self, *arguments: Any) -> Any:
        self.library.asked.append(self.name)
        if self.name == "nvmlErrorString":
            return b"Not Supported"
        answer = self.library.answers.get(self.name)
        return answer(*arguments) if answer else 0


def number(value: int) -> Callable[..., int]:
    """Return an answer that puts a number where the last argument points."""

    def answer(*arguments: Any) -> int:
        arguments[-1]._obj.value = value
        return 0

    return answer


def processes(*known: tuple[int, int]) -> Callable[..., int]:
    """Return an answer with a table of processes; too small a table is refused first."""

    def answer(_: Any, count: Any, table: Any) -> int:
        if count._obj.value < len(known):
            count._obj.value = len(known)
            return 7
        for at, (pid, used) in enumerate(known):
            table[at].pid, table[at].used = pid, used
        count._obj.value = len(known)
        return 0

    return answer


def test_clocks_power_heat_and_what_holds_clocks_down_are_read() -> None:
    library = Library(
        nvmlDeviceGetClockInfo=number(1980),
        nvmlDeviceGetPowerUsage=number(512_345),
        nvmlDeviceGetTemperature=number(61),
        nvmlDeviceGetCurrentClocksThrottleReasons=number(0x4 | 0x20),
    )
    nvml = Nvml("GPU-1", library)
    assert (nvml.sm_mhz(), nvml.memory_mhz(), nvml.temperature_c()) == (1980, 1980, 61)
    assert nvml.power_w() == 512.345
    assert nvml.held_by() == ["power cap", "software thermal slowdown"]


def test_what_a_device_does_not_tell_is_none_and_another_error_is_raised() -> None:
    nvml = Nvml("GPU-1", Library(nvmlDeviceGetPowerUsage=lambda *_: 3))
    assert nvml.power_w() is None
    lost = Nvml("GPU-1", Library(nvmlDeviceGetPowerUsage=lambda *_: 15))
    with pytest.raises(NoNvml, match=r"nvmlDeviceGetPowerUsage.*15"):
        lost.power_w()
    with pytest.raises(NoNvml, match="nvmlDeviceGetHandleByUUID"):
        Nvml("GPU-2", Library(nvmlDeviceGetHandleByUUID=lambda *_: 6))


def test_a_table_of_many_processes_is_read_whole() -> None:
    known = [(pid, pid << 20) for pid in range(1, 101)]
    nvml = Nvml("GPU-1", Library(nvmlDeviceGetComputeRunningProcesses_v3=processes(*known)))
    assert nvml.processes() == dict(known)
    unknown = Library(nvmlDeviceGetComputeRunningProcesses_v3=processes((7, 2**64 - 1)))
    assert Nvml("GPU-1", unknown).processes() == {7: 0}


def test_clocks_are_held_only_when_asked_and_by_their_own_call() -> None:
    library = Library()
    nvml = Nvml("GPU-1", library)
    assert not any("Locked" in name for name in library.asked)
    nvml.lock_clocks(1500)
    nvml.free_clocks()
    assert library.asked[-2:] == [
        "nvmlDeviceSetGpuLockedClocks",
        "nvmlDeviceResetGpuLockedClocks",
    ]


def test_a_process_that_is_not_the_guards_is_another() -> None:
    me, stranger = os.getpid(), os.getppid()
    found = others({me: 1, stranger: 5 << 20}, me)
    assert found == [OtherProcess(pid=stranger, bytes=5 << 20)]
    assert others({stranger: 5}, me) is None
    assert others(None, me) is None


def test_what_is_worth_saying_of_blocks_is_said_once() -> None:
    hot = {"held_by": ["power cap"], "others": [OtherProcess(pid=5, bytes=3 << 20)]}
    states = [
        DeviceState(pair=1, free_bytes=FREE, held_by=["idle"], others=[]),
        DeviceState.model_validate({"pair": 1, "free_bytes": FREE - (100 << 20), **hot}),
        DeviceState.model_validate({"pair": 2, "free_bytes": FREE, **hot}),
    ]
    assert noteworthy(states) == [
        "clocks_held_down: power cap after 2 of 3 blocks",
        "gpu_not_idle: process 5, not of this guard, has a context on the device (3 MiB)",
        "memory_grows: 100 MiB more were held after a pair's last block than its first",
    ]
    assert noteworthy([]) == []
    blind = [DeviceState(pair=1, free_bytes=FREE)]
    assert noteworthy(blind) == ["gpu_not_idle: whether others use the device cannot be told here"]


def test_a_driver_that_is_too_old_for_a_question_is_named() -> None:
    asked = "nvmlDeviceGetComputeRunningProcesses_v3"
    nvml = Nvml("GPU-1", Library(lacks=(asked,)))
    with pytest.raises(NoNvml, match=f"{asked}: this driver's library does not have it"):
        nvml.processes()
