"""Fleets of this machine: Ray nodes of the real `worker` command, with scripted guards or real ones."""

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
START_SECONDS = 240.0
_TOOLS = {"C++": "GCC 12.2.0", "Python": "3.11.9", "torch": "2.11.0"}
_GUARD = """#!{python} -I
import json, random, sys, time
if "kernelarc_guard.identity" in sys.argv:
    told = {{"model": {model!r}, "unit": "", "toolchain": {tools!r}, "built_with": {{}}, "architecture": ""}}
    print(json.dumps(told))
    sys.exit()
sys.path[:0] = {path!r}
from kernelarc_guard.prepare import prepare_in
from scripted_guard import REQUEST, answer, say
for line in sys.stdin:
    if prepare_in(line.encode()) is None:
        time.sleep({pause!r} * random.uniform(0.5, 1.5))
        say(answer(REQUEST.validate_json(line)))
"""


def scripted_guard(folder: Path, name: str, model: str = "scripted", pause: float = 0.0) -> str:
    """Return what takes the place of a guard's interpreter on the host `name`.

    Each answer takes about `pause` seconds.
    """
    script = folder / f"guard-{name}"
    tests = ROOT / "tests"
    text = _GUARD.format(
        python=sys.executable,
        model=model,
        tools=_TOOLS,
        pause=pause,
        path=[str(ROOT / "guard"), str(ROOT), str(tests)],
    )
    script.write_text(text)
    script.chmod(0o755)
    return str(script)


def free_port() -> int:
    """Return a port of loopback that nobody uses now."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port: int = one.getsockname()[1]
        return port


def wait_until(what: str, holds: Callable[[], bool], seconds: float = START_SECONDS) -> None:
    """Return as soon as something holds; fail where it never does."""
    until = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < until, f"{what}: not within {seconds:g} s"
        time.sleep(0.05)


class Worker:
    """One `kernelarc-mcp worker`."""

    def __init__(self, name: str, arguments: list[str], folder: Path) -> None:
        self.name = name
        self.log = folder / f"worker-{name}.log"
        command = [sys.executable, "-m", "kernelarc_mcp", "worker", "--name", name]
        command += ["--object-store-mb", "80", "--cache", str(folder / "cache"), *arguments]
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
            )

    def said(self, words: str) -> int:
        """Return how often it said something."""
        return self.log.read_text().count(words)

    def children(self) -> list[int]:
        """Return its children's process ids."""
        return children_of(self.process.pid)

    def stop(self) -> None:
        """Stop it as Ctrl-C does, and wait until all of it is gone."""
        self.process.send_signal(signal.SIGINT)
        with suppress(subprocess.TimeoutExpired):
            self.process.wait(60)
        self.kill()

    def kill(self) -> None:
        """Kill it; what it started ends with it."""
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()


def children_of(process: int) -> list[int]:
    """Return the ids of a process's children."""
    path = Path(f"/proc/{process}/task/{process}/children")
    try:
        return [int(one) for one in path.read_text().split()]
    except OSError:
        return []


def guard_of(script: str) -> int:
    """Return the process of the guard that was started with a script; 0 where there is none."""
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            with suppress(OSError):
                words = (entry / "cmdline").read_bytes().split(b"\0")
                if script.encode() in words and b"kernelarc_guard" in words:
                    return int(entry.name)
    return 0


def parent_of(process: int) -> int:
    """Return the id of a process's parent."""
    told = Path(f"/proc/{process}/stat").read_text()
    return int(told.rpartition(")")[2].split()[1])


class Fleet:
    """A head and further hosts."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.port = free_port()
        self.workers: dict[str, Worker] = {}

    @property
    def address(self) -> str:
        """Return where the head listens."""
        return f"127.0.0.1:{self.port}"

    def add(self, name: str, *arguments: str, head: bool = False) -> Worker:
        """Start a host."""
        place = ["--head", "--port", str(self.port)] if head else ["--address", self.address]
        self.workers[name] = Worker(name, [*place, *arguments], self.folder)
        return self.workers[name]

    def wait_offered(self, *names: str) -> None:
        """Return when the devices of these hosts were offered."""
        for name in names:
            worker = self.workers[name]

            def offered(worker: Worker = worker) -> bool:
                assert worker.process.poll() is None, worker.log.read_text()
                return worker.said("offered: ") > 0

            wait_until(f"{name} offers a device", offered)

    def standin(self, *more: str, campaign: str = "test", kind: str = "cpu") -> list[str]:
        """Return the command of a stand-in of this fleet."""
        command = [sys.executable, "-I", "-m", "kernelarc_mcp.fleet.standin"]
        command += ["--address", self.address, "--campaign", campaign, "--kind", kind]
        return [*command, *more]


@contextmanager
def fleet_in(folder: Path) -> Iterator[Fleet]:
    """Yield a fleet without hosts; end all that were added."""
    fleet = Fleet(folder)
    try:
        yield fleet
    finally:
        # The head last: the others take leave of it.
        for worker in reversed(fleet.workers.values()):
            worker.stop()
