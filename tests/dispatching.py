"""A real process that dispatches a campaign, to be stopped or killed."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from kernelarc_mcp.host.election import STOPPED_SECONDS

ROOT = Path(__file__).resolve().parents[1]
SERVE = """
import anyio, sys
from pathlib import Path
from kernelarc_mcp.host.dispatcher import Dispatcher
from kernelarc_mcp.host.host import Host
host = Host.open(Path(sys.argv[1]))
anyio.run(Dispatcher(host, sys.argv[2], stopped_seconds=float(sys.argv[3])).run)
"""


@contextmanager
def serving(
    folder: Path, guard: str, stopped_seconds: float = STOPPED_SECONDS
) -> Iterator[subprocess.Popen[bytes]]:
    """Yield a process that dispatches when it is elected, and takes over from a stopped one."""
    path = os.pathsep.join(str(ROOT / part) for part in (".", "guard", "memory"))
    process = subprocess.Popen(
        [sys.executable, "-c", SERVE, str(folder), guard, str(stopped_seconds)],
        env=os.environ | {"PYTHONPATH": path},
    )
    try:
        yield process
    finally:
        process.kill()
        process.wait()
