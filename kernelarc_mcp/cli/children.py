"""The processes that a demo starts, each with a log."""

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Self

from kernelarc_mcp.cli.console import UserError

_URL = re.compile(r"http://\S+/mcp\b")
_START_SECONDS = 60.0
_STOP_SECONDS = 10.0
_LOOK_SECONDS = 0.1
_ENDING = (signal.SIGTERM, signal.SIGHUP)


class Stopped(SystemExit):
    """A signal asked this process to end; its status is the shell's for that signal."""

    def __init__(self, number: int) -> None:
        """Keep which it was."""
        super().__init__(128 + number)
        self.name = signal.Signals(number).name


@contextmanager
def stopped_by_signals() -> Iterator[None]:
    """Raise Stopped inside at SIGTERM and SIGHUP, as Ctrl-C raises, so that children are ended.

    Only the main thread may enter it. While things are being ended a further signal changes nothing.
    """

    def stop(number: int, _: object) -> None:
        for one in _ENDING:
            signal.signal(one, signal.SIG_IGN)
        raise Stopped(number)

    before = {number: signal.signal(number, stop) for number in _ENDING}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


class Child:
    """One process in a session of its own, ended with all its children."""

    def __init__(self, name: str, command: list[str], log: Path, **extra: str) -> None:
        """Start `command` with `extra` environment variables, its output going to `log`."""
        self.name = name
        self._log = log
        with log.open("wb") as file:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=file,
                env={**os.environ, **extra},
                start_new_session=True,
            )

    @property
    def status(self) -> int | None:
        """Return its exit status, None while it runs."""
        return self._process.poll()

    def written(self) -> str:
        """Return what it wrote so far."""
        return self._log.read_text(encoding="utf-8", errors="replace")

    def last_line(self) -> str:
        """Return the last line it wrote."""
        lines = self.written().strip().splitlines()
        return lines[-1] if lines else "it wrote nothing"

    def stop(self) -> None:
        """Ask it to end, then make it."""
        for number in (signal.SIGTERM, signal.SIGKILL):
            if self.status is None:
                with suppress(ProcessLookupError):
                    os.killpg(self._process.pid, number)
                with suppress(subprocess.TimeoutExpired):
                    self._process.wait(_STOP_SECONDS)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()


def start_server(folder: Path, guard_python: str, log: Path) -> tuple[Child, str]:
    """Start a campaign's HTTP server on a free port of loopback; return it and its URL.

    UserError where it does not come up.
    """
    command = [sys.executable, "-m", "kernelarc_mcp", "serve", str(folder)]
    server = Child(
        "server", [*command, "--http", "127.0.0.1:0", "--guard-python", guard_python], log
    )
    deadline = time.monotonic() + _START_SECONDS
    try:
        while server.status is None and time.monotonic() < deadline:
            if found := _URL.search(server.written()):
                return server, found.group()
            time.sleep(_LOOK_SECONDS)
    except BaseException:  # told to end: nobody else knows this process yet
        server.stop()
        raise
    server.stop()
    raise UserError(f"the server did not start: {server.last_line()} (see {log})")
