"""Run one compiler under limits, in a process of its own that ends with whoever started it.

Run as a module, as the first process of a sandbox where there is one: reads one JSON job line from
stdin, answers one JSON line on stdout. Its parent keeps stdin open; when that closes, the compiler
and all it started are killed. Nothing of a candidate runs here, so a process group is a whole tree.
"""

import json
import os
import resource
import select
import signal
import subprocess
import time
from contextlib import suppress
from typing import Any

from kernelarc_guard import landlock, seccomp
from kernelarc_guard.confinement import DEVICES, Confinement, drop_capabilities

_CHUNK = 1 << 16


def run_job(job: dict[str, Any], parent_fd: int) -> dict[str, Any]:
    """Run the job's command until it ends, its deadline passes or the parent is gone.

    The answer has `returncode` (None where it was cut off), `output`, `truncated`, `seconds`.
    """
    started = time.monotonic()
    with subprocess.Popen(
        job["command"],
        cwd=job["cwd"],
        env=job["env"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
        # Safe here: this process has a single thread.
        preexec_fn=lambda: _limit(job),
    ) as compiler:
        assert compiler.stdout is not None
        pidfd = os.pidfd_open(compiler.pid)
        kept = _Output(compiler.stdout.fileno(), job["output_bytes"])
        finished = False
        try:
            finished = _follow(kept, pidfd, parent_fd, started + job["seconds"])
        finally:
            # Also after a regular end: nothing that it started may stay behind.
            with suppress(ProcessLookupError):
                os.killpg(compiler.pid, signal.SIGKILL)
            os.close(pidfd)
        while kept.take():
            pass
        returncode = compiler.wait()
    return {
        "returncode": returncode if finished else None,
        "output": kept.data.decode("utf-8", "replace"),
        "truncated": kept.truncated,
        "seconds": time.monotonic() - started,
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


def _follow(kept: _Output, pidfd: int, parent_fd: int, deadline: float) -> bool:
    """Read output until the compiler ends; False where the deadline or the parent's end came first."""
    watched = [kept.fd, pidfd, parent_fd]
    while (left := deadline - time.monotonic()) > 0:
        ready, _, _ = select.select(watched, [], [], left)
        if pidfd in ready:
            return True
        if parent_fd in ready and not os.read(parent_fd, _CHUNK):
            return False
        if kept.fd in ready and not kept.take():
            watched.remove(kept.fd)
    return False


def _limit(job: dict[str, Any]) -> None:
    cpu, memory, size = int(job["seconds"]) + 2, job["memory_bytes"], job["file_bytes"]
    if job["cores"]:
        os.sched_setaffinity(0, job["cores"])
    resource.setrlimit(resource.RLIMIT_CPU, (cpu, cpu))
    resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    drop_capabilities()
    confinement = Confinement.from_json(job["confinement"])
    landlock.no_new_privileges()
    if confinement.kind != "none":
        landlock.restrict(confinement.readable, job["writable"], DEVICES)
    if job.get("filter", True) and seccomp.supported():
        seccomp.install(os.getpid(), confinement.abi < landlock.SIGNAL_SCOPE_ABI)


def main() -> None:
    """Do the one job that stdin names."""
    line = b""
    while not line.endswith(b"\n"):
        chunk = os.read(0, _CHUNK)
        if not chunk:
            return
        line += chunk
    answer = json.dumps(run_job(json.loads(line), parent_fd=0)).encode() + b"\n"
    # Where the parent is gone nobody wants the answer.
    with suppress(BrokenPipeError):
        while answer:
            answer = answer[os.write(1, answer) :]


if __name__ == "__main__":
    main()
