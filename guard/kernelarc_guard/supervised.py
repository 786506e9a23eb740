"""Running one command in a sandbox of its own under a deadline, outliving neither it nor the guard."""

import json
import os
import subprocess
import sys
from collections.abc import Sequence
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
COUNTED: Final = {"pids": "counted", "memory": "counted"}
"""Who limits processes and memory in a room, as `Sandbox.describe` says it of nurseries."""
GIVEN: Final = "/given"
"""Where a sandboxed command sees the folder that it reads."""
OUT: Final = "/out"
"""Where it sees the folder that it writes to."""


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
        profiler from its own sockets. RuntimeError where the supervisor itself fails.
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

    Raises RuntimeError where the supervisor itself fails.
    """
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as supervisor:
        assert supervisor.stdin is not None and supervisor.stdout is not None
        try:
            supervisor.stdin.write(json.dumps(job).encode() + b"\n")
            supervisor.stdin.flush()
            line = supervisor.stdout.readline()
        finally:
            # The supervisor takes this for our end and kills what is left.
            supervisor.stdin.close()
    if not line:
        raise RuntimeError(f"the supervisor ended with code {supervisor.returncode}")
    answer: dict[str, Any] = json.loads(line)
    return answer
