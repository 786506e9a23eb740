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
from kernelarc_guard.confinement import Confinement
from kernelarc_guard.sandbox import TASKS, Sandbox, memory_limit

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
            }
        words = self.sandbox.command(
            [sys.executable, "-I", "-B", "-m", compile_job.__name__],
            environment=environment,
            readable=[(self.given, GIVEN), *((Path(path), path) for path in self.shown)],
            writable=[(self.out, OUT)],
            devices=self.devices,
        )
        return supervise(words, job)


def supervise(words: Sequence[str], job: dict[str, Any]) -> dict[str, Any]:
    """Run a job in a supervisor, started by `words`, that outlives neither it nor this process.

    Raises SupervisorLost where the supervisor itself fails, or says nothing long after the job's deadline.
    """
    with subprocess.Popen(
        words,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        # What a sandbox starts before it is one is in its group, and would wait for it for ever.
        process_group=0,
    ) as supervisor:
        assert supervisor.stdin is not None and supervisor.stdout is not None
        line = b""
        try:
            supervisor.stdin.write(json.dumps(job).encode() + b"\n")
            supervisor.stdin.flush()
            line = _line(supervisor, job["seconds"] + _GRACE_SECONDS)
        finally:
            # The supervisor takes this for our end and kills what is left.
            with suppress(BrokenPipeError):
                supervisor.stdin.close()
            if not line:
                with suppress(ProcessLookupError):
                    os.killpg(supervisor.pid, signal.SIGKILL)
    if not line:
        raise SupervisorLost(f"the supervisor ended with code {supervisor.returncode}")
    answer: dict[str, Any] = json.loads(line)
    return answer


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
