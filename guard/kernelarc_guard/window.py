"""Stop, fill, go, seal: one timed call with both ends owned by the warden. Standard library only.

A runner stops itself when a call is done. Its parent wakes it (t0) and polls for its next stop (t1).
Between two windows it must not run: a stopped process can arrange to be woken by a timer, so the
parent checks that nobody continued it (the kernel keeps that for its parent, also when it has stopped
again) and that its CPU clock stood still.
"""

import os
import signal
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

Clock = Callable[[], int]
"""Monotonic nanoseconds."""

_REST_SECONDS = 5.0
_COARSE_NS = 2_000_000
"""What the CPU clock may move where the kernel does not say whether a thread has left its core."""
_LOOK_NS = 20_000_000
"""A call that lasts longer is looked at every so often: shorter ones are never disturbed."""

_STOP_OR_END = os.WSTOPPED | os.WEXITED | os.WNOHANG
_ANY_CHANGE = _STOP_OR_END | os.WCONTINUED
"""A process that was continued and stopped again shows as a stop that nobody waited for."""


class RunnerEnded(Exception):
    """The runner's process is gone; `how` says how it ended."""

    def __init__(self, how: str) -> None:
        super().__init__(how)
        self.how = how


class DeadlinePassed(Exception):
    """The runner did not stop in time."""


class SelfWoken(Exception):
    """The runner ran while it had to stand still."""


WindowFault = RunnerEnded | DeadlinePassed | SelfWoken


def _nothing() -> None:
    pass


@dataclass
class Window:
    """The windows of one runner, which must be a child of this process."""

    pid: int
    clock: Clock = time.perf_counter_ns
    look: Callable[[], None] = _nothing
    """Called every 20 ms of a call or a wait that lasts longer; what it raises ends the call."""
    seal: Callable[[], None] = _nothing
    """Called the moment a call's end was seen, before anything else."""
    ended: bool = False
    cpu_ns: int = 0
    """CPU time of all threads in the last window."""
    _cpu_at_stop: int = field(default=-1)
    _exact: bool = field(default=True)

    def wait_stopped(self, seconds: float) -> None:
        """Wait for the next stop without timing it."""
        self._poll(self.clock() + int(seconds * 1e9), pause=0.0005)
        self._rest()

    def check_still(self) -> None:
        """Raise SelfWoken if the runner has run since its last stop, RunnerEnded if it is gone."""
        if self.ended:
            raise RunnerEnded("it had ended before")
        seen = os.waitid(os.P_PID, self.pid, _ANY_CHANGE)
        if seen is not None and seen.si_code not in (os.CLD_CONTINUED, os.CLD_STOPPED):
            self.ended = True
            raise RunnerEnded(how_it_ended(seen.si_code, seen.si_status))
        if seen is not None:
            raise SelfWoken("the process was continued between two windows")
        ran = self._cpu_ns() - self._cpu_at_stop
        if ran > (0 if self._exact else _COARSE_NS):
            raise SelfWoken(f"the process ran for {ran} ns between two windows")

    def go(self, seconds: float) -> int:
        """Wake the runner, wait for its next stop and return the nanoseconds between."""
        clock, waitid, pid = self.clock, os.waitid, self.pid
        before = self._cpu_at_stop
        begin = clock()
        limit = begin + int(seconds * 1e9)
        pause = min(limit, begin + _LOOK_NS)
        os.kill(pid, signal.SIGCONT)
        while (seen := waitid(os.P_PID, pid, _STOP_OR_END)) is None:
            if clock() > pause:
                self.look()
                if clock() > limit:
                    raise DeadlinePassed(f"no stop within {seconds:g} s")
                pause = min(limit, clock() + _LOOK_NS)
        end = clock()
        self.seal()
        self._sealed(seen, before)
        return end - begin

    def _sealed(self, seen: os.waitid_result, before: int) -> None:
        """Note how a window ended; raises RunnerEnded where that was not with a stop."""
        self._settle(seen)
        self._rest()
        self.cpu_ns = self._cpu_at_stop - before

    def strike(self) -> None:
        """Kill the runner with its process group; it stays to be reaped."""
        with suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)

    def kill(self) -> None:
        """Kill the runner with its process group and reap it."""
        self.strike()
        if not self.ended:
            with suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
            self.ended = True

    def _poll(self, limit: int, pause: float) -> None:
        look_at = self.clock() + _LOOK_NS
        while (seen := os.waitid(os.P_PID, self.pid, _STOP_OR_END)) is None:
            if self.clock() > limit:
                raise DeadlinePassed("no stop before the deadline")
            if self.clock() > look_at:
                self.look()
                look_at = self.clock() + _LOOK_NS
            time.sleep(pause)
        self._settle(seen)

    def _settle(self, seen: os.waitid_result) -> None:
        if seen.si_code != os.CLD_STOPPED:
            self.ended = True
            raise RunnerEnded(how_it_ended(seen.si_code, seen.si_status))

    def _rest(self) -> None:
        """Wait until every thread has left its core, then note the CPU clock.

        The kernel reports a stop some microseconds before the last thread is off its core, and may
        preempt that thread in between. /proc/PID/task/TID/wchan reads 0 as long as it is runnable.
        """
        limit = self.clock() + int(_REST_SECONDS * 1e9)
        while self._exact and any(_runnable(self.pid, tid) for tid in self.threads()):
            if self.clock() > limit:
                self._exact = False  # this kernel does not tell: it hides wchan or lacks it
        self._cpu_at_stop = self._cpu_ns()

    def threads(self) -> list[str]:
        """Return the ids of the runner's threads; empty where it is gone."""
        try:
            return os.listdir(f"/proc/{self.pid}/task")
        except FileNotFoundError:
            return []

    def _cpu_ns(self) -> int:
        # The kernel's id of another process's CPU clock: clock_getcpuclockid(3).
        return time.clock_gettime_ns((~self.pid << 3) | 2)


def go_together(windows: Sequence[Window], seconds: float) -> list[int | WindowFault]:
    """Wake several runners at once and wait until all have stopped.

    Returns for each the nanoseconds until then, or what went wrong with it. Nothing is timed so.
    """
    if not windows:
        return []
    first = windows[0]
    befores = [one._cpu_at_stop for one in windows]
    begin = first.clock()
    limit = begin + int(seconds * 1e9)
    for one in windows:
        os.kill(one.pid, signal.SIGCONT)
    seen: dict[int, os.waitid_result] = {}
    took: dict[int, int] = {}
    look_at = begin + _LOOK_NS
    while len(seen) < len(windows) and first.clock() <= limit:
        for index, one in enumerate(windows):
            if index not in seen:
                stop = os.waitid(os.P_PID, one.pid, _STOP_OR_END)
                if stop is not None:
                    seen[index], took[index] = stop, first.clock() - begin
        if first.clock() > look_at:
            first.look()
            look_at = first.clock() + _LOOK_NS
    first.seal()
    ends: list[int | WindowFault] = []
    for index, (one, before) in enumerate(zip(windows, befores, strict=True)):
        if index not in seen:
            ends.append(DeadlinePassed(f"no stop within {seconds:g} s"))
            continue
        try:
            one._sealed(seen[index], before)
        except RunnerEnded as ended:
            ends.append(ended)
        else:
            ends.append(took[index])
    return ends


def _runnable(pid: int, tid: str) -> bool:
    try:
        with open(f"/proc/{pid}/task/{tid}/wchan", "rb") as wchan:
            return wchan.read() == b"0"
    except (FileNotFoundError, ProcessLookupError):
        return False


def how_it_ended(code: int, status: int) -> str:
    """Return in words how a process ended, from what `waitid` says."""
    if code == os.CLD_EXITED:
        return f"it exited with status {status}"
    # Real-time signals have numbers, not names.
    names = {one.value: one.name for one in signal.Signals}
    return f"it was killed by {names.get(status, f'signal {status}')}"
