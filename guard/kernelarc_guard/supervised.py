"""Running one command in a sandbox of its own under a deadline, outliving neither it nor the guard."""

import json
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from kernelarc_guard import compile_job
from kernelarc_guard.cgroups import Cgroups
from kernelarc_guard.confinement import Confinement
from kernelarc_guard.processes import descendants
from kernelarc_guard.sandbox import TASKS, Sandbox, memory_limit
from kernelarc_guard.scratch import MOST_ENTRIES

_OUTPUT_BYTES: Final = 256 << 10
_FILE_BYTES: Final = 512 << 20
_OUT_BYTES: Final = 4 << 30
"""Of all files that a solution leaves in a room: reports and what it compiles are far below."""
_UNLIMITED: Final = -1
_CHUNK: Final = 1 << 16
_GRACE_SECONDS: Final = 60.0
"""How long after a job's deadline its supervisor may still take to answer."""
COUNTED: Final = {"pids": "counted", "memory": "counted"}
"""Who limits processes and memory in a room, as `Sandbox.describe` says it of nurseries."""
GIVEN: Final = "/given"
"""Where a sandboxed command sees the folder that it reads."""
OUT: Final = "/out"
"""Where it sees the folder that it writes to."""


class SupervisorLost(RuntimeError):
    """A supervisor was killed, or says nothing long after its job's deadline."""


@dataclass(frozen=True)
class Room:
    """A sandbox for commands: two folders of the host, and what else they see."""

    sandbox: Sandbox
    given: Path
    """Read-only."""
    out: Path
    """Writable; also its temporary files and its home."""
    shown: Sequence[str] = ()
    """Further paths of the host, read-only and under their own names."""
    devices: Sequence[str] = ()
    environment: dict[str, str] = field(default_factory=dict)
    hostile: bool = False
    """Does a solution's own code run in it? Then all its processes are counted together."""

    def inside(self, path: Path) -> str:
        """Return where a command sees a path below either folder."""
        if not self.sandbox.bubblewrap:
            return str(path)
        for folder, place in ((self.given, GIVEN), (self.out, OUT)):
            if path == folder:
                return place
            if path.is_relative_to(folder):
                return f"{place}/{path.relative_to(folder)}"
        raise ValueError(f"{path} is not shown to the command")

    def run(self, command: Sequence[str], seconds: float) -> dict[str, Any]:
        """Run a command; the answer is that of `compile_job.run_job`.

        Behind bubblewrap alone, without landlock and the system call filter: both would keep a
        profiler from its own sockets. SupervisorLost where the supervisor itself fails.
        """
        home = self.inside(self.out)
        environment = {
            "PATH": os.environ.get("PATH", os.defpath),
            "LANG": "C.UTF-8",
            "HOME": home,
            "TMPDIR": home,
            **self.environment,
        }
        job = {
            "command": list(command),
            "cwd": home,
            "env": environment,
            "seconds": seconds,
            "memory_bytes": _UNLIMITED,
            "file_bytes": _FILE_BYTES,
            "output_bytes": _OUTPUT_BYTES,
            "confinement": Confinement("none", self.sandbox.abi, (), 0).as_json(),
            "writable": [],
            "cores": [],
            "filter": False,
        }
        if self.hostile:
            job["together"] = {
                "tasks": TASKS,
                "memory_bytes": memory_limit(),
                "folder": home,
                "folder_bytes": _OUT_BYTES,
                "folder_entries": MOST_ENTRIES,
            }
        words = self.sandbox.command(
            [sys.executable, "-I", "-B", "-m", compile_job.__name__],
            environment=environment,
            readable=[(self.given, GIVEN), *((Path(path), path) for path in self.shown)],
            writable=[(self.out, OUT)],
            devices=self.devices,
        )
        return supervise(words, job)


class Supervisor:
    """A supervisor with one job, that outlives neither it nor the thread that starts it."""

    def __init__(self, words: Sequence[str], job: dict[str, Any]) -> None:
        """Start it, by `words`, and give it its job; a held one waits for `go`."""
        self._seconds: float = job["seconds"]
        self._process = subprocess.Popen(
            words,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            # What a sandbox starts before it is one is in its group, and would wait for it for ever.
            process_group=0,
        )
        self._tell(json.dumps(job).encode() + b"\n")

    def go(self) -> None:
        """Let a held job begin."""
        self._tell(b"\n")

    def hold_in(self, groups: Cgroups) -> None:
        """Put it, with all that it has started and will start, into control groups, where there are any."""
        held: set[int] = set()
        with suppress(OSError):
            # What a process started before it was held is among its children after that.
            while new := {self._process.pid, *descendants(self._process.pid)} - held:
                groups.attach(new)
                held |= new

    def answer(self) -> dict[str, Any]:
        """Wait for the answer, which is that of `compile_job.run_job`, and for its end.

        Raises SupervisorLost where it fails itself, or says nothing long after the job's deadline.
        """
        line = b""
        try:
            line = _line(self._process, self._seconds + _GRACE_SECONDS)
        finally:
            self.end(kill=not line)
        if not line:
            raise SupervisorLost(f"the supervisor ended with code {self._process.returncode}")
        answer: dict[str, Any] = json.loads(line)
        return answer

    def end(self, kill: bool = True) -> None:
        """End it with its job; what it has answered is lost."""
        process = self._process
        if process.returncode is not None:
            return  # its number may be another's by now
        assert process.stdin is not None and process.stdout is not None
        # The supervisor takes this for our end and kills what is left.
        with suppress(BrokenPipeError):
            process.stdin.close()
        if kill:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        process.stdout.close()

    def _tell(self, line: bytes) -> None:
        assert self._process.stdin is not None
        # Where it has ended there is no answer either.
        with suppress(BrokenPipeError):
            self._process.stdin.write(line)
            self._process.stdin.flush()


def supervise(words: Sequence[str], job: dict[str, Any]) -> dict[str, Any]:
    """Run a job in a supervisor, started by `words`, that outlives neither it nor this process.

    Raises SupervisorLost where the supervisor itself fails, or says nothing long after the job's deadline.
    """
    return Supervisor(words, job).answer()


def _line(supervisor: subprocess.Popen[bytes], seconds: float) -> bytes:
    """Return the supervisor's line; nothing where it ends first, or takes longer than `seconds`.

    Its end counts, not that of its output: a child that it left may hold that open.
    """
    assert supervisor.stdout is not None
    output, limit, said = supervisor.stdout.fileno(), time.monotonic() + seconds, bytearray()
    ended = os.pidfd_open(supervisor.pid)
    try:
        while not said.endswith(b"\n"):
            left = max(0.0, limit - time.monotonic())
            ready, _, _ = select.select([output, ended], [], [], left)
            chunk = os.read(output, _CHUNK) if output in ready else b""
            if not chunk:
                return b""
            said += chunk
    finally:
        os.close(ended)
    return bytes(said)
