"""Run one command under limits, in a process of its own that ends with whoever started it.

Run as a module, as the first process of a sandbox where there is one: reads one JSON job line from
stdin, answers one JSON line on stdout. Its parent keeps stdin open; when that closes, the command and
all it started are killed. In a sandbox that is everything but this process, whatever group it left;
without one it is the command's group, which is all that a compiler starts.

The command of a job that is `held` waits for a line on its stdin. It gets one, and its time begins, when the
parent sends a second line.
"""

import json
import os
import resource
import select
import signal
import subprocess
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from kernelarc_guard import landlock, seccomp
from kernelarc_guard.census import Census
from kernelarc_guard.confinement import DEVICES, Confinement, drop_capabilities
from kernelarc_guard.limits import prefer_for_killing
from kernelarc_guard.scratch import Scratch

_CHUNK = 1 << 16
_FIRST = 1
"""The process id of a sandbox's first process."""
_MOST_IN_A_PIPE = 1 << 20
_LOOK_SECONDS = 0.25
_LEAST_SHARE = 10
MEMORY = "/proc/meminfo"


class _Clock:
    """How much time a job has left; as much as it likes before it begins."""

    def __init__(self, seconds: float, held: bool) -> None:
        self._seconds = seconds
        self._end = None if held else time.monotonic() + seconds

    @property
    def held(self) -> bool:
        """Has its time not begun?"""
        return self._end is None

    @property
    def left(self) -> float:
        """Seconds until the deadline."""
        return self._seconds if self._end is None else self._end - time.monotonic()

    def begin(self) -> None:
        """Let the time begin."""
        self._end = time.monotonic() + self._seconds


def run_job(job: dict[str, Any], parent_fd: int, begun: bool = False) -> dict[str, Any]:
    """Run the job's command until it ends, its deadline passes or the parent is gone.

    `begun`: its parent has let a held one go already. The answer has `returncode` (None where it was
    cut off), `output`, `truncated`, `seconds`, and `passed`: which of the limits that the job has for
    all its processes together was, or nothing.
    """
    started = time.monotonic()
    clock = _Clock(job["seconds"], job.get("held", False))
    with subprocess.Popen(
        job["command"],
        cwd=job["cwd"],
        env=job["env"],
        stdin=subprocess.PIPE if clock.held else subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
        # Safe here: this process has a single thread.
        preexec_fn=lambda: _limit(job),
    ) as compiler:
        assert compiler.stdout is not None
        pidfd = os.pidfd_open(compiler.pid)
        kept = _Output(compiler.stdout.fileno(), job["output_bytes"])
        together = _Together(**job["together"]) if job.get("together") else None
        finished = False
        try:
            there = not clock.held or _hold(clock, compiler, pidfd, parent_fd, begun)
            finished = there and _follow(kept, pidfd, parent_fd, clock, together)
        finally:
            # Also after a regular end: nothing that it started may stay behind.
            with suppress(ProcessLookupError):
                os.killpg(compiler.pid, signal.SIGKILL)
            if os.getpid() == _FIRST:
                with suppress(ProcessLookupError):
                    os.kill(-1, signal.SIGKILL)
            os.close(pidfd)
        kept.rest()
        returncode = compiler.wait()
    return {
        "returncode": returncode if finished else None,
        "output": kept.data.decode("utf-8", "replace"),
        "truncated": kept.truncated,
        "seconds": time.monotonic() - started,
        "passed": "" if together is None else together.passed,
    }


class _Output:
    """What the compiler wrote, up to a cap; the rest is read and thrown away."""

    def __init__(self, fd: int, cap: int) -> None:
        self.fd, self.data, self.truncated = fd, b"", False
        self._cap = cap

    def take(self) -> bool:
        """Read what is there; False at the end."""
        chunk = os.read(self.fd, _CHUNK)
        room = self._cap - len(self.data)
        self.data += chunk[:room]
        self.truncated = self.truncated or len(chunk) > room
        return bool(chunk)

    def rest(self) -> None:
        """Read what was written already; whoever still holds the pipe open is not waited for."""
        os.set_blocking(self.fd, False)
        with suppress(BlockingIOError):
            for _ in range(_MOST_IN_A_PIPE // _CHUNK):
                if not self.take():
                    break


class _Together:
    """What all processes of a job may have together, where no control group holds them: counted."""

    def __init__(
        self, tasks: int, memory_bytes: int, folder: str, folder_bytes: int, folder_entries: int
    ) -> None:
        self.passed = ""
        """Which limit was passed, for people."""
        self._tasks, self._memory = tasks, memory_bytes
        self._folder = Scratch(Path(folder))
        self._bytes, self._entries = folder_bytes, folder_entries
        self._census = Census(os.getpid() == _FIRST)
        self._looked = time.monotonic()

    def within(self) -> bool:
        """Look, if the last look is a while ago, and say whether no limit was passed."""
        if time.monotonic() - self._looked < _LOOK_SECONDS:
            return True
        if self._census.tasks() > self._tasks:
            self.passed = f"more than {self._tasks} processes and threads"
        elif self._census.resident_bytes() > self._memory:
            self.passed = f"more than {self._memory} bytes of memory"
        elif little_memory_left():
            # Shared memory that nobody maps is in no process's count.
            self.passed = "what leaves this machine less than a tenth of its memory"
        elif self._folder.bytes_used(self._entries) > self._bytes:
            self.passed = (
                f"more than {self._bytes} bytes of files, more than {self._entries} of "
                "them, or files that cannot be counted"
            )
        self._looked = time.monotonic()
        return not self.passed


def little_memory_left() -> bool:
    """Say whether the machine has hardly any memory that could be given to somebody."""
    with open(MEMORY, encoding="ascii") as lines:
        told = dict(line.split(":", 1) for line in lines)
    left, whole = (int(told[name].split()[0]) for name in ("MemAvailable", "MemTotal"))
    return left * _LEAST_SHARE < whole


def _hold(
    clock: _Clock, command: subprocess.Popen[bytes], pidfd: int, parent_fd: int, begun: bool
) -> bool:
    """Wait until the parent lets a held command go, or it ends by itself; False where the parent is gone."""
    ready = [] if begun else select.select([pidfd, parent_fd], [], [])[0]
    if pidfd in ready:
        return True
    if not begun and not os.read(parent_fd, _CHUNK):
        return False
    assert command.stdin is not None
    clock.begin()
    # It may have ended just now; nothing may be left over that closing the pipe would write.
    with suppress(BrokenPipeError):
        os.write(command.stdin.fileno(), b"\n")
    return True


def _follow(
    kept: _Output, pidfd: int, parent_fd: int, clock: _Clock, together: _Together | None
) -> bool:
    """Read output until the command ends; False where a limit or the parent's end came first."""
    watched = [kept.fd, pidfd, parent_fd]
    while (left := clock.left) > 0:
        ready, _, _ = select.select(watched, [], [], left if together is None else _LOOK_SECONDS)
        if pidfd in ready:
            return True
        if parent_fd in ready and not os.read(parent_fd, _CHUNK):
            return False
        if kept.fd in ready and not kept.take():
            watched.remove(kept.fd)
        if together is not None and not together.within():
            return False
    return False


def _limit(job: dict[str, Any]) -> None:
    cpu, memory, size = int(job["seconds"]) + 2, job["memory_bytes"], job["file_bytes"]
    if job["cores"]:
        os.sched_setaffinity(0, job["cores"])
    if not job.get("held"):  # it would count what one does before its time begins
        resource.setrlimit(resource.RLIMIT_CPU, (cpu, cpu))
    resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if job.get("together"):
        # Memory that it holds is not all in its size, by which the kernel chooses whom to end.
        prefer_for_killing()
    drop_capabilities()
    confinement = Confinement.from_json(job["confinement"])
    landlock.no_new_privileges()
    if confinement.kind != "none":
        landlock.restrict(confinement.readable, job["writable"], DEVICES)
    if job.get("filter", True) and seccomp.supported():
        seccomp.install(os.getpid(), confinement.abi < landlock.SIGNAL_SCOPE_ABI)


def main() -> None:
    """Do the one job that stdin names."""
    said = b""
    while b"\n" not in said:
        chunk = os.read(0, _CHUNK)
        if not chunk:
            return
        said += chunk
    line, _, more = said.partition(b"\n")
    answer = json.dumps(run_job(json.loads(line), 0, begun=bool(more))).encode() + b"\n"
    # Where the parent is gone nobody wants the answer.
    with suppress(BrokenPipeError):
        while answer:
            answer = answer[os.write(1, answer) :]


if __name__ == "__main__":
    main()
