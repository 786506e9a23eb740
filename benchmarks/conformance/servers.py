"""The servers that are compared: ours as served, ours with the suite's fixtures, the SDK's own."""

import json
import os
import re
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from kernelarc_mcp.cli.children import Child

AGENT = "agent-1"
_TESTS = Path(__file__).resolve().parents[2] / "tests"
_URL = re.compile(r"http://\S+/mcp\b")
_START_SECONDS = 120.0
_LOOK_SECONDS = 0.1


@dataclass(frozen=True)
class Ours:
    """A campaign to serve, and the token of its one agent."""

    folder: Path
    token: str
    guard: Path
    """Stands in for the guard's interpreter: nothing is judged here."""


def create(root: Path) -> Ours:
    """Create a campaign of one agent."""
    folder = root / "campaign"
    command = [sys.executable, "-m", "kernelarc_mcp", "new", str(folder)]
    command += ["--problem", "rmsnorm", "--agents", "1", "--attempts", "100", "--json"]
    made = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    (row,) = json.loads(made.stdout)["tokens"]
    guard = root / "silent-guard"
    guard.write_text("#!/bin/sh\nexec cat > /dev/null\n")
    guard.chmod(0o755)
    return Ours(folder, row["token"], guard)


@contextmanager
def served(ours: Ours, log: Path, *, fixtures: bool) -> Iterator[str]:
    """Yield the URL of our server, with or without what the suite asks for by name."""
    start = ["-m", "conformance"] if fixtures else ["-m", "kernelarc_mcp", "serve"]
    command = [sys.executable, *start, str(ours.folder), "--http", "127.0.0.1:0"]
    # The suite sends all of its requests as one agent, hundreds in a few seconds: the door's limit is
    # another thing, and has tests of its own.
    command += ["--guard-python", str(ours.guard), "--rate", "0"]
    path = os.pathsep.join([str(_TESTS), os.environ.get("PYTHONPATH", "")])
    with Child("server", command, log, PYTHONPATH=path) as child:
        for _ in _looking(child):
            if found := _URL.search(child.written()):
                break
        else:
            raise RuntimeError(f"our server did not start: {child.last_line()} (see {log})")
        yield found.group()


@contextmanager
def reference(folder: Path, log: Path) -> Iterator[str]:
    """Yield the URL of the SDK's own server for this suite, whose source is in `folder`."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [sys.executable, "-m", "mcp_everything_server", "--port", str(port)]
    with Child("reference", command, log, PYTHONPATH=str(folder)) as child:
        for _ in _looking(child):
            if _listens(port):
                break
        else:
            raise RuntimeError(f"the SDK's server did not start: {child.last_line()} (see {log})")
        yield f"http://127.0.0.1:{port}/mcp"


def _looking(child: Child) -> Iterator[None]:
    deadline = time.monotonic() + _START_SECONDS
    while child.status is None and time.monotonic() < deadline:
        yield
        time.sleep(_LOOK_SECONDS)


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0
