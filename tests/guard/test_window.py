"""Windows around real processes that stop themselves."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator

import pytest

from kernelarc_guard.window import (
    DeadlinePassed,
    RunnerEnded,
    SelfWoken,
    Window,
    go_together,
)

STOP = (
    "import os, signal, sys, time\nme = os.getpid()\nstop = lambda: os.kill(me, signal.SIGSTOP)\n"
)
BUSY = """while True:
    stop()
    end = time.perf_counter() + 0.02
    while time.perf_counter() < end:
        pass
"""
SELF_WAKE = """import ctypes
class Event(ctypes.Structure):
    _fields_ = [("value", ctypes.c_void_p), ("signo", ctypes.c_int), ("notify", ctypes.c_int),
                ("pad", ctypes.c_byte * 64)]
class Spec(ctypes.Structure):
    _fields_ = [("every_s", ctypes.c_long), ("every_ns", ctypes.c_long),
                ("first_s", ctypes.c_long), ("first_ns", ctypes.c_long)]
libc, timer = ctypes.CDLL(None), ctypes.c_void_p()
stop()
event = Event(None, signal.SIGCONT, 0)
assert libc.timer_create(1, ctypes.byref(event), ctypes.byref(timer)) == 0
assert libc.timer_settime(timer, 0, ctypes.byref(Spec(0, 0, 0, 50_000_000)), None) == 0
stop()
total = sum(range(100000))
stop()
"""
WAKE_AND_STOP = SELF_WAKE.replace("total = sum(range(100000))", "")
EXIT = "stop()\nsys.exit(3)\n"
FOREVER = "stop()\nwhile True:\n    pass\n"


@pytest.fixture
def start() -> Iterator["Start"]:
    starter = Start()
    yield starter
    starter.kill()


class Start:
    """Starts scripts as children and ends them."""

    def __init__(self) -> None:
        self._processes: list[subprocess.Popen[bytes]] = []

    def __call__(self, script: str) -> Window:
        process = subprocess.Popen([sys.executable, "-c", STOP + script])
        self._processes.append(process)
        window = Window(process.pid)
        window.wait_stopped(20)
        return window

    def kill(self) -> None:
        for process in self._processes:
            process.kill()
            process.wait()


def test_a_window_lasts_as_long_as_the_call(start: Start) -> None:
    window = start(BUSY)
    for _ in range(3):
        window.check_still()
        elapsed = window.go(5)
        assert 20e6 <= elapsed < 5e9


@pytest.mark.parametrize("script", [SELF_WAKE, WAKE_AND_STOP])
def test_a_process_that_wakes_itself_between_windows_is_noticed(start: Start, script: str) -> None:
    window = start(script)
    window.go(5)
    deadline = time.monotonic() + 10
    with pytest.raises(SelfWoken):
        while time.monotonic() < deadline:
            window.check_still()


def test_a_process_that_ends_says_how(start: Start) -> None:
    window = start(EXIT)
    with pytest.raises(RunnerEnded, match="status 3"):
        window.go(5)
    window = start(FOREVER)
    os.kill(window.pid, signal.SIGKILL)
    with pytest.raises(RunnerEnded, match="SIGKILL"):
        window.go(5)


def test_a_call_that_does_not_end_passes_its_deadline(start: Start) -> None:
    window = start(FOREVER)
    with pytest.raises(DeadlinePassed, match=r"0\.2 s"):
        window.go(0.2)
    window.kill()
    assert window.ended


def test_runners_woken_together_are_waited_for_together_and_each_has_its_own_end(
    start: Start,
) -> None:
    windows = [start(script) for script in (BUSY, EXIT, FOREVER, BUSY)]
    begin = time.perf_counter()
    first, ended, late, second = go_together(windows, 1.0)
    assert time.perf_counter() - begin >= 1.0
    assert isinstance(first, int) and isinstance(second, int) and min(first, second) >= 20e6
    assert isinstance(ended, RunnerEnded) and "status 3" in str(ended)
    assert isinstance(late, DeadlinePassed)
    windows[0].check_still()
    assert windows[3].go(5) >= 20e6


def test_the_seal_of_runners_woken_together_is_after_the_last(start: Start) -> None:
    windows = [start(BUSY), start(BUSY)]
    sealed: list[int] = []
    windows[0].seal = lambda: sealed.append(time.perf_counter_ns())
    before = time.perf_counter_ns()
    took = go_together(windows, 20.0)
    assert len(sealed) == 1
    assert all(isinstance(one, int) and sealed[0] - before >= one for one in took)
    assert go_together([], 1.0) == []
