"""Building ahead, the guard's side: for which devices, on which cores, and the process that does it; light.

All that the guard's own process does for it is to write lines into a pipe: its clock runs there.
"""

import fcntl
import json
import os
import subprocess
import sys
import time
from collections import deque
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from select import select
from threading import Lock
from typing import Any, Final

from kernelarc_guard import preparer
from kernelarc_guard.cores import ahead_cores, pinned_to
from kernelarc_guard.processes import descendants, kill_all
from kernelarc_guard.sandbox import Sandbox

PREPARE_ON: Final = "--prepare-on="
"""The guard's argument with cores, as in ``0-3,8``: there it builds ahead, whatever measures where."""
_HELD: Final = 4
"""Requests that are kept while their device is not open yet."""
_PIPE_BYTES: Final = 1 << 20
_WRITE_SECONDS: Final = 2.0
"""A process that reads nothing for so long is stopped or stuck."""


@dataclass(frozen=True)
class Building:
    """What has to be known of a device to build for it."""

    gpu: str
    """Its architecture, as in ``90a``; empty: the host."""
    beside: bool
    """May compilers work while somebody measures on it?"""
    properties: dict[str, int | str] = field(default_factory=dict)
    """What solutions are told of it; empty: the host."""


class Preparing:
    """Hands requests to one process of its own, which ends with the guard, and with its builders."""

    def __init__(self, cores: frozenset[int] = frozenset()) -> None:
        """Start nothing yet; build on `cores`, whatever measures where (empty: where nothing does)."""
        self._cores = cores
        self._sandbox: Sandbox | None = None
        self._devices: dict[str, Building] = {}
        self._held: deque[dict[str, Any]] = deque(maxlen=_HELD)
        self._process: subprocess.Popen[bytes] | None = None
        self._told = False
        # The reading thread offers; the judging one says what it opens, and may end what is stuck.
        self._lock = Lock()

    def know(self, device: str, building: Building, sandbox: Sandbox) -> None:
        """Take notice of a device that was opened, and of the sandbox its solutions are built in."""
        with self._lock:
            self._devices[device], self._sandbox = building, sandbox
            held = [self._held.popleft() for _ in range(len(self._held))]
        for request in held:
            self.offer(request)

    def offer(self, request: dict[str, Any]) -> None:
        """Have a `Prepare` done where that disturbs nothing that is measured."""
        with self._lock:
            device = request.get("device", "cpu")
            building = self._devices.get(device) if isinstance(device, str) else None
            if building is None or self._sandbox is None:
                self._held.append(request)
                return
            free = ahead_cores(_threads(request)) if building.beside else frozenset()
            if cores := self._cores or free:
                try:
                    job = {"request": request} | asdict(building)
                    self._tell(job, cores, self._sandbox)
                except OSError as error:
                    # The machine lets no more processes start: the judgement builds, or says so. One that
                    # may have half a line goes.
                    self._end()
                    print(f"nothing is built ahead: {error}", file=sys.stderr, flush=True)
            elif not self._told:
                self._told = True
                why = "there are too few cores" if building.beside else "it is the device"
                print(
                    f"nothing is built ahead for {device}: {why}, compilers would disturb what is "
                    f"timed ({PREPARE_ON}CORES would do it all the same)",
                    file=sys.stderr,
                    flush=True,
                )

    def end(self) -> bool:
        """End the process with its builders; say whether there was one. The next offer starts another."""
        with self._lock:
            return self._end()

    def _end(self) -> bool:
        process, self._process = self._process, None
        if process is None:
            return False
        assert process.stdin is not None
        below = descendants(process.pid)
        kill_all([process.pid, *below])
        process.stdin.close()
        process.wait()
        for orphan in below:
            with suppress(ChildProcessError):  # most end with their own parent
                os.waitpid(orphan, 0)
        return True

    def _tell(self, job: dict[str, Any], cores: frozenset[int], sandbox: Sandbox) -> None:
        if self._process is None or self._process.poll() is not None:
            self._end()
            self._process = _started(cores, sandbox)
        assert self._process.stdin is not None
        # Where it is stuck or was killed this moment the judgement builds.
        if not _written(self._process.stdin.fileno(), json.dumps(job).encode() + b"\n"):
            self._end()


def _started(cores: frozenset[int], sandbox: Sandbox) -> subprocess.Popen[bytes]:
    given = json.dumps({"cores": sorted(cores), "sandbox": asdict(sandbox)})
    with pinned_to(cores):
        process = subprocess.Popen(
            [sys.executable, "-I", "-B", "-m", preparer.__name__, given],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            bufsize=0,
        )
    assert process.stdin is not None
    os.set_blocking(process.stdin.fileno(), False)
    with suppress(OSError):  # more than this user may have: a line is then written in parts
        fcntl.fcntl(process.stdin, fcntl.F_SETPIPE_SZ, _PIPE_BYTES)
    return process


def _written(pipe: int, line: bytes) -> bool:
    """Write a line; False where it is not read: whoever does this also waits for stdin's end."""
    limit = time.monotonic() + _WRITE_SECONDS
    try:
        while line:
            _, ready, _ = select([], [pipe], [], max(0.0, limit - time.monotonic()))
            if not ready:
                return False
            line = line[os.write(pipe, line) :]
    except BrokenPipeError:
        return False
    return True


def _threads(request: dict[str, Any]) -> int:
    """Return how many cores a problem's runners have; what is no number fails to validate later."""
    definition = request.get("definition")
    settings = definition.get("kernelarc") if isinstance(definition, dict) else None
    threads = settings.get("threads", 1) if isinstance(settings, dict) else 1
    return threads if isinstance(threads, int) and threads > 0 else 1
