"""Runs the attempts of `escapes.py` in real runners and builders, with aims that a host really has."""

import ctypes
import json
import os
import socket
import subprocess
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final, Self

from escapes import IN_BUILDER, Aims, probe
from laboratory import Laboratory, told

from kernelarc_guard.build import Limits, run_in_builder
from kernelarc_guard.sandbox import Sandbox

_RUNNER_END: Final = "\nimport torch\n\ndef run(x, scale):\n    raise RuntimeError('<<' + json.dumps(RESULTS) + '>>')\n"
_IPC_CREAT: Final = 0o1000


class Host:
    """A campaign's folder, a server, sockets, a segment and another process to aim at."""

    def __init__(self) -> None:
        """Make them."""
        self._stack = ExitStack()
        keep = self._stack.enter_context
        # Beside the places that every sandbox has of its own.
        folder = Path(keep(tempfile.TemporaryDirectory(prefix="aims-", dir="/var/tmp")))
        folder.chmod(0o777)
        campaign = folder / "campaign"
        campaign.mkdir(mode=0o777)
        campaign.chmod(0o777)
        (campaign / "campaign.db").write_text("ledger")
        (campaign / "campaign.db").chmod(0o666)
        server = keep(socket.create_server(("127.0.0.1", 0)))
        port: int = server.getsockname()[1]
        datagram = keep(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
        datagram.bind(("127.0.0.1", port))
        abstract = f"kernelarc-aim-{os.getpid()}"
        for name, kind in (
            ("\0" + abstract, socket.SOCK_STREAM),
            (str(campaign / "socket"), socket.SOCK_STREAM),
            (str(campaign / "socket.datagram"), socket.SOCK_DGRAM),
        ):
            one = keep(socket.socket(socket.AF_UNIX, kind))
            one.bind(name)
            if kind == socket.SOCK_STREAM:
                one.listen()
        self._sleeper = keep(
            subprocess.Popen(
                [sys.executable, "-c", "import sys; sys.stdin.read()"], stdin=subprocess.PIPE
            )
        )
        self._segment = _libc.shmget(0, 4096, _IPC_CREAT | 0o666)
        self.aims = Aims(
            guard=self._sleeper.pid,
            readable={
                "the ledger": str(campaign / "campaign.db"),
                "/etc/passwd": "/etc/passwd",
                "/etc/shadow": "/etc/shadow",
                "the first process's environment": "/proc/1/environ",
                "the first process's memory": "/proc/1/mem",
                "the guard's environment": f"/proc/{os.getpid()}/environ",
                "the guard's memory": f"/proc/{os.getpid()}/mem",
                "a file of the home folder": str(Path.home() / ".profile"),
                "a file of the checkout": __file__,
            },
            folders={
                "the campaign": str(campaign),
                **{path: path for path in ("/", "/etc", "/var/tmp", "/run")},
                "the home folder": str(Path.home()),
            },
            port=port,
            abstract=abstract,
            named=str(campaign / "socket"),
            queue=self._segment,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        # Tracing it from outside may have left it stopped.
        self._sleeper.kill()
        if self._segment >= 0:
            _libc.shmctl(self._segment, 0, None)
        self._stack.close()

    def unharmed(self) -> bool:
        """Say whether the process that is aimed at still lives."""
        return self._sleeper.poll() is None

    def answers(self, kind: str) -> dict[str, str]:
        """Return what the attempts of a kind, those that change nothing but our aims, say outside."""
        folder = str(Path(self.aims.named).parent)
        aims = Aims(
            **{
                **self.aims.__dict__,
                "readable": {"the ledger": f"{folder}/campaign.db"},
                "folders": {"the campaign": folder},
            }
        )
        source = probe(kind, aims)
        with tempfile.TemporaryDirectory() as work:
            done = subprocess.run(
                [sys.executable, "-c", _only(source) + IN_BUILDER],
                capture_output=True,
                text=True,
                check=True,
                cwd=work,
            )
        return _found(done.stdout)


def _only(source: str) -> str:
    """Leave all but our own aims in peace."""
    source = "\n".join(line for line in source.split("\n") if 'attempt("rename' not in line)
    return source.replace('(("the first process", 1), ', "(").replace(
        ', ("its parent", os.getppid()))', ",)"
    )


def answers_of_runner(lab: Laboratory, kind: str, aims: Aims) -> dict[str, str]:
    """Return what the attempts of a kind come to in a runner."""
    return told(lab.fault(probe(kind, aims) + _RUNNER_END))


def answers_of_builder(sandbox: Sandbox, kind: str, aims: Aims) -> dict[str, str]:
    """Return what the attempts of a kind come to in a builder, as the compiler itself."""
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder) / "work"
        work.mkdir()
        source = probe(kind, aims) + IN_BUILDER
        answer: dict[str, Any] = run_in_builder(
            [sys.executable, "-I", "-c", source], work, Limits(60.0, 4 << 30, sandbox)
        )
    assert answer["returncode"] == 0, answer
    return _found(answer["output"])


def worked(answers: dict[str, str]) -> dict[str, str]:
    """Return the attempts that were not refused."""
    return {name: said for name, said in answers.items() if not said.startswith("refused")}


def _found(output: str) -> dict[str, str]:
    found: dict[str, str] = json.loads(output.split("<<")[1].split(">>")[0])
    return found


_libc = ctypes.CDLL(None, use_errno=True)
