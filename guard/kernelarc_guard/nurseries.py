"""The guard's handles of its nurseries: one in use, one kept warm for the next confirmation."""

import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import IO

from kernelarc_guard.faults import Refused
from kernelarc_guard.frames import FrameError, recv_frame, send_frame

_START_SECONDS = 120.0
_FORK_SECONDS = 30.0


class Nursery:
    """One nursery process; it imports while the guard does other things."""

    def __init__(self, log: IO[bytes]) -> None:
        """Start the process with a cleared environment; its output goes to `log`."""
        self._channel, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-I", "-B", "-m", "kernelarc_guard.nursery", str(theirs.fileno())],
                pass_fds=(theirs.fileno(),),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=_environment(),
            )
        self._ready = False

    @property
    def pid(self) -> int:
        """Return the process id."""
        return self._process.pid

    def wait_ready(self) -> None:
        """Wait until it can fork; raises Refused if it cannot start."""
        if self._ready:
            return
        self._channel.settimeout(_START_SECONDS)
        try:
            recv_frame(self._channel)
        except (FrameError, OSError) as error:
            code = self._process.poll()
            raise Refused(
                f"the nursery did not start ({error}, exit status {code}); "
                "is kernelarc-mcp[guard] installed for this interpreter?"
            ) from error
        self._channel.settimeout(_FORK_SECONDS)
        self._ready = True

    def fork(self) -> tuple[int, socket.socket]:
        """Return a fresh runner's process id, now a child of this process, and its channel."""
        self.wait_ready()
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        with theirs:
            send_frame(self._channel, {"fork": True}, (theirs.fileno(),))
        reply, _ = recv_frame(self._channel)
        return int(reply["pid"]), ours

    def close(self) -> None:
        """End the process."""
        self._channel.close()
        self._process.kill()
        self._process.wait()


class Nurseries:
    """A nursery for screens and a spare that becomes the next confirmation's own."""

    def __init__(self, log_path: Path) -> None:
        """Start the first one; its messages are kept in `log_path`."""
        self._log = log_path.open("ab")
        self._current = Nursery(self._log)
        self._spare: Nursery | None = None

    def current(self) -> Nursery:
        """Return the nursery of screens, ready."""
        self._current.wait_ready()
        return self._current

    def settle(self) -> None:
        """Wait until no nursery is starting: its import would disturb what is timed."""
        if self._spare is not None:
            self._spare.wait_ready()

    def renew(self) -> Nursery:
        """Return a nursery that has forked nothing yet, for one confirmation."""
        spare, self._spare = self._spare or Nursery(self._log), None
        spare.wait_ready()
        self._current.close()
        self._current = spare
        return spare

    def pids(self) -> frozenset[int]:
        """Return the processes that are meant to stay."""
        live = (self._current, self._spare)
        return frozenset(nursery.pid for nursery in live if nursery is not None)

    def warm_spare(self) -> None:
        """Start the spare; call it while nothing is being timed."""
        if self._spare is None:
            self._spare = Nursery(self._log)

    def close(self) -> None:
        """End them all."""
        for nursery in (self._current, self._spare):
            if nursery is not None:
                nursery.close()
        self._log.close()


def _environment() -> dict[str, str]:
    return {
        "PATH": os.environ.get("PATH", "/usr/local/bin:/usr/bin:/bin"),
        "LANG": "C.UTF-8",
        "OMP_NUM_THREADS": "1",
        "OMP_WAIT_POLICY": "passive",
    }
