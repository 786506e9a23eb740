"""The warden: keeps runners on the guard's behalf, inside the sandbox, and owns their windows.

It is their parent, so the kernel tells it of their stops, and the first process of their PID
namespace (or a subreaper), so nothing they start escapes it. Runs no code of any solution and holds
no secret: a runner is a copy of it. Standard library only.
"""

import os
import signal
import socket
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Final

from kernelarc_guard import seccomp
from kernelarc_guard.census import Census
from kernelarc_guard.confinement import Confinement
from kernelarc_guard.scratch import Scratch
from kernelarc_guard.window import (
    DeadlinePassed,
    RunnerEnded,
    SelfWoken,
    Window,
    WindowFault,
    go_together,
    how_it_ended,
)

MAX_PROCESSES: Final = 256
"""What the namespace may hold where neither a control group nor the kernel counts."""
_THREADS_SLACK_NS: Final = 5_000_000
_THREADS_FACTOR: Final = 1.25
"""CPU time beyond this many times threads x wall (and the slack) ran on cores not given to it."""

RunnerMain = Callable[[socket.socket, Confinement, int], None]
"""The body of a runner: channel, confinement, label."""


class LimitPassed(Exception):
    """The processes of a runner passed a limit that is counted, not enforced by the kernel."""


@dataclass
class _Ward:
    window: Window
    blank: bool = True
    """Has nobody's solution been given to it yet?"""
    resting: bool = False
    """Does a blank one stand still until it is used?"""
    slot: int = -1
    cores: frozenset[int] = frozenset()
    starting: frozenset[int] = frozenset()
    """Where it gets ready, until its first window of its own; empty: on its cores."""
    called: bool = False
    """Did its first window begin?"""
    noted: bool = field(default=False)


class Warden:
    """Forks, times, watches and ends runners; each method answers one frame of the guard."""

    def __init__(
        self,
        confinement: Confinement,
        scratches: list[Path],
        runner: RunnerMain,
        limits: dict[str, Any],
        close_in_child: Callable[[], None],
    ) -> None:
        """Keep runners in `scratches`, by slot; `limits` says what is counted here.

        `limits` has `count_processes`, `memory_bytes` and `scratch_bytes`, each 0 where the kernel
        bounds it.
        """
        self._confinement = confinement
        self._scratches = [Scratch(path) for path in scratches]
        self._runner = runner
        self._limits = limits
        self._close_in_child = close_in_child
        self._census = Census(namespaced=confinement.kind == "bubblewrap+landlock")
        self._wards: dict[int, _Ward] = {}
        self._labels = 0

    def fork(self, frame: dict[str, Any], fds: list[int]) -> dict[str, Any]:
        """Fork a runner with its channel; it is nobody's until `use`."""
        # Where these cores are all there are, this process stays on them.
        if frame["own_cores"]:
            os.sched_setaffinity(0, frame["own_cores"])
        self._labels += 1
        label = self._labels
        pid = os.fork()
        if pid == 0:
            self._close_in_child()
            os.setsid()
            signal.signal(signal.SIGINT, signal.SIG_DFL)
            os.environ.update(frame["environment"])
            self._runner(socket.socket(fileno=fds[0]), self._confinement, label)
            os._exit(70)
        os.close(fds[0])
        self._wards[label] = _Ward(Window(pid, look=self._look, seal=self._seal))
        return {"runner": label}

    def use(self, frame: dict[str, Any], fds: list[int]) -> dict[str, Any]:
        """Give a runner its slot, a scratch folder there and its cores, the first ones apart.

        A descriptor that comes along is an archive of what its solution left elsewhere, `ahead` of
        all its runs or in its first one.
        """
        ward, scratch = self._wards[frame["runner"]], self._scratches[frame["slot"]]
        for archive in fds:
            scratch.adopt(archive, frame.get("ahead", False))
            os.close(archive)
        pid = ward.window.pid
        ended = os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        if ended is not None:
            return {"fault": "ended", "how": how_it_ended(ended.si_code, ended.si_status)}
        ward.blank, ward.slot, ward.cores = False, frame["slot"], frozenset(frame["cores"])
        ward.starting = frozenset(frame["starting"])
        os.kill(pid, signal.SIGCONT)
        # That it was let go on, here or by `_seal`, is no sign of anything.
        os.waitid(os.P_PID, pid, os.WCONTINUED | os.WNOHANG)
        self._pin(ward, ward.starting or ward.cores)
        return {"scratch": str(scratch.make(str(frame["runner"])))}

    def rest(self, frame: dict[str, Any], fds: list[int]) -> dict[str, Any]:
        """Let runners that are nobody's stand still from the next seal on: they have opened the device."""
        for label in frame["runners"]:
            self._wards[label].resting = True
        return {}

    def wait(self, frame: dict[str, Any], fds: list[int]) -> dict[str, Any]:
        """Wait until a runner has loaded its solution and stopped."""
        ward = self._wards[frame["runner"]]
        return self._told(lambda: ward.window.wait_stopped(frame["seconds"]))

    def go(self, frame: dict[str, Any], fds: list[int]) -> dict[str, Any]:
        """Execute one window: `ns`, or what went wrong."""
        label = frame["runner"]
        ward = self._wards[label]

        def window() -> dict[str, Any]:
            early = 0
            if frame.get("empty"):  # nothing of a solution is there yet
                ward.window.check_still()
            else:
                if ward.starting:
                    ward.starting = frozenset()
                    self._pin(ward, ward.cores)
                early = self._ready(label)
            return self._answer(label, ward.window.go(frame["seconds"]), early)

        return self._told(window)

    def resume(self, frame: dict[str, Any], fds: list[int]) -> dict[str, Any]:
        """Let a runner go on that had only empty windows so far; `wait` waits for its next stop."""
        with suppress(ProcessLookupError):
            os.kill(self._wards[frame["runner"]].window.pid, signal.SIGCONT)
        return {}

    def together(self, frame: dict[str, Any], fds: list[int]) -> dict[str, Any]:
        """Execute a window of several runners at once, which nothing times: `answers` as of `go`."""
        labels = frame["runners"]

        def windows() -> dict[str, Any]:
            answers = {one: self._told(partial(self._ready_to_go, one)) for one in labels}
            going = [label for label in labels if "fault" not in answers[label]]
            ends = go_together([self._wards[one].window for one in going], frame["seconds"])
            for label, end in zip(going, ends, strict=True):
                early = answers[label]["early"]
                answers[label] = self._told(partial(self._ended, label, end, early))
            return {"answers": [answers[label] for label in labels]}

        return self._told(windows)

    def open(self, frame: dict[str, Any], fds: list[int]) -> tuple[dict[str, Any], list[int]]:
        """Open a stopped runner's memory and table of mappings, for the guard to read."""
        pid = self._wards[frame["runner"]].window.pid
        try:
            opened = [os.open(f"/proc/{pid}/mem", os.O_RDONLY | os.O_CLOEXEC)]
            opened.append(os.open(f"/proc/{pid}/maps", os.O_RDONLY | os.O_CLOEXEC))
        except OSError as error:
            return {"fault": "unreadable", "how": str(error)}, []
        return {}, opened

    def keep(self, frame: dict[str, Any], fds: list[int]) -> tuple[dict[str, Any], list[int]]:
        """Set the scratch folder of a stopped runner aside for the next ones of its slot.

        The first time the answer has an archive of it.
        """
        label = frame["runner"]
        ward = self._wards[label]
        still = not self._strangers(label)
        scratch = self._scratches[ward.slot]
        kept = still and scratch.keep(str(label))
        archive = scratch.pack() if kept else None
        return {"kept": kept}, [] if archive is None else [archive]

    def kill(self, frame: dict[str, Any], fds: list[int]) -> dict[str, Any]:
        """Kill a runner with what it started, and do not wait: on a GPU its end takes a while."""
        label = frame["runner"]
        self._wards[label].window.strike()
        for stranger in self._strangers(label):
            with suppress(ProcessLookupError):
                os.kill(stranger, signal.SIGKILL)
        return {}

    def end(self, frame: dict[str, Any], fds: list[int]) -> dict[str, Any]:
        """Kill a runner and what it started, and remove its scratch folder."""
        label = frame["runner"]
        # Counted first: the kernel hangs up on what is left stopped in its group once it is gone.
        before = len(self._strangers(label))
        ward = self._wards.pop(label)
        ward.window.kill()
        left = max(before, self._census.end(label, self._pids()))
        if not ward.blank:
            self._scratches[ward.slot].drop(str(label))
        return {"left": left}

    def clean(self, frame: dict[str, Any], fds: list[int]) -> dict[str, Any]:
        """End everything but this process and empty all scratch folders."""
        for ward in self._wards.values():
            ward.window.kill()
        self._wards.clear()
        left = self._census.end_all()
        for scratch in self._scratches:
            scratch.clear()
        return {"left": left}

    def _ready(self, label: int) -> int:
        """See that a window can begin; return how many processes were there before the first one."""
        ward = self._wards[label]
        self._place(ward)
        ward.window.check_still()
        early = [] if ward.called else self._strangers(label)
        ward.called = True
        return len(early)

    def _ready_to_go(self, label: int) -> dict[str, Any]:
        return {"early": self._ready(label)}

    def _ended(self, label: int, end: int | WindowFault, early: int) -> dict[str, Any]:
        if not isinstance(end, int):
            raise end
        return self._answer(label, end, early)

    def _answer(self, label: int, elapsed: int, early: int) -> dict[str, Any]:
        """Return what is told of a window that has ended."""
        ward, strangers = self._wards[label], self._strangers(label)
        answer: dict[str, Any] = {"ns": elapsed, "cpu_ns": ward.window.cpu_ns}
        if early:
            answer["early"] = early
        if strangers:
            answer["strangers"] = len(strangers)
        bound = _THREADS_FACTOR * len(ward.cores) * elapsed + _THREADS_SLACK_NS
        if ward.window.cpu_ns > bound:
            answer["threads"] = len(ward.cores)
        return answer

    def _pids(self) -> set[int]:
        return {ward.window.pid for ward in self._wards.values()}

    def _strangers(self, label: int) -> list[int]:
        return [s.pid for s in self._census.strangers(self._pids()) if s.label == label]

    def _place(self, ward: _Ward) -> None:
        """Put a runner back on its cores where it can have left them."""
        if not seccomp.supported():
            self._pin(ward, ward.starting or ward.cores)

    def _pin(self, ward: _Ward, cores: frozenset[int]) -> None:
        for thread in ward.window.threads():
            with suppress(ProcessLookupError):
                os.sched_setaffinity(int(thread), cores)

    def _seal(self) -> None:
        """Stop all that is there, but those that run no solution yet and may be opening a device."""
        self._census.freeze()
        for ward in self._wards.values():
            if ward.blank and not ward.resting:
                with suppress(ProcessLookupError):
                    os.kill(ward.window.pid, signal.SIGCONT)

    def _look(self) -> None:
        limits = self._limits
        if limits["count_processes"] and (count := len(self._census.pids())) > MAX_PROCESSES:
            raise LimitPassed(f"it started {count} processes; at most {MAX_PROCESSES}")
        if limits["memory_bytes"] and self._census.resident_bytes() > limits["memory_bytes"]:
            raise LimitPassed(f"its processes hold more than {limits['memory_bytes']} bytes")
        if limits["scratch_bytes"]:
            for scratch in self._scratches:
                if scratch.bytes_used() > limits["scratch_bytes"]:
                    raise LimitPassed(f"it wrote more than {limits['scratch_bytes']} bytes")

    def _told(self, step: Callable[[], dict[str, Any] | None]) -> dict[str, Any]:
        """Return a step's answer, or the fault it ended with."""
        try:
            return step() or {}
        except DeadlinePassed as passed:
            return {"fault": "deadline", "how": str(passed)}
        except RunnerEnded as ended:
            return {"fault": "ended", "how": ended.how}
        except SelfWoken as woken:
            return {"fault": "woken", "how": str(woken)}
        except LimitPassed as limit:
            with suppress(TimeoutError):  # the guard ends the whole nursery next
                self._census.end_all()
            return {"fault": "limit", "how": str(limit)}
