"""A stand-in for the guard that takes its time, so that it can be killed while it judges; no torch.

What imports once is a server; each guard is a fork of it, and the process in the place of the guard's interpreter
only hands its standard streams over. When that one is killed, the fork ends at once.
"""

import os
import random
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import scripted_fleet
import scripted_guard

from kernelarc_guard.protocol import REQUEST, Progress, Refusal, Result

Say = Callable[[Progress | Result | Refusal], None]
_PAUSE: Final = 0.03
"""Longest pause in seconds before each message."""
_GUARD: Final = """#!{python} -IS
import array, os, socket, sys
server = socket.socket(socket.AF_UNIX)
server.connect({path!r})
fds = array.array("i", [0, 1, 2])
server.sendmsg([b"x"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, fds)])
for fd in (0, 1):
    os.close(fd)
os._exit((server.recv(1) or b"\\x09")[0])
"""


@contextmanager
def stand_in(folder: Path, devices: int = 0) -> Iterator[str]:
    """Yield an executable that takes the place of the guard's interpreter, while its server lives.

    With `devices` it takes that of a fleet's stand-in, which judges on so many at once.
    """
    path, script = folder / "stand-in.socket", folder / "stand-in"
    tests = Path(__file__).resolve().parents[1]
    roots = [str(tests.parent / "guard"), str(tests.parent), str(tests)]
    program = f"import sys; sys.path[:0] = {roots!r}; from crash.standin import serve; serve()"
    script.write_text(_GUARD.format(python=sys.executable, path=str(path)))
    script.chmod(0o755)
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(path))
        listening.listen(64)
        number = str(listening.fileno())
        server = subprocess.Popen(
            [sys.executable, "-I", "-c", program, str(devices), number],
            pass_fds=(listening.fileno(),),
        )
    try:
        yield str(script)
    finally:
        server.kill()
        server.wait()


def serve() -> None:
    """Fork a guard for each that connects to the socket whose number is the last argument.

    The one before is the devices of a fleet; 0: a guard.
    """
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    listening = socket.socket(fileno=int(sys.argv[-1]))
    while True:
        connection, _ = listening.accept()
        _, fds, _, _ = socket.recv_fds(connection, 1, 3)
        if os.fork() == 0:
            listening.close()
            for number, fd in enumerate(fds):
                os.dup2(fd, number)
                os.close(fd)
            _guard(connection, int(sys.argv[-2]))
        for fd in fds:
            os.close(fd)
        connection.close()


def _guard(connection: socket.socket, devices: int) -> None:
    random.seed()
    os.setsid()
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    threading.Thread(target=_end_with, args=(connection,), daemon=True).start()
    # Its own calls go through the module's name.
    setattr(scripted_guard, "say", _slowly(scripted_guard.say))  # noqa: B010
    if devices:
        fleet = scripted_fleet.Fleet("scripted")
        for _ in range(devices):
            fleet.add_device()
        scripted_fleet.serve(fleet)
    for line in sys.stdin:
        scripted_guard.say(scripted_guard.answer(REQUEST.validate_json(line)))
    connection.send(b"\0")
    os._exit(0)


def _end_with(connection: socket.socket) -> None:
    connection.recv(1)
    os.killpg(0, signal.SIGKILL)


def _slowly(say: Say) -> Say:
    def said(answer: Progress | Result | Refusal) -> None:
        time.sleep(random.random() * _PAUSE)
        say(answer)

    return said
