"""A Ray node of this host, as a child process that ends with its parent."""

import json
import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import IO, Final

from kernelarc_mcp.fleet.tether import tethered

OBJECT_STORE_BYTES: Final = 256 << 20
"""Requests and answers are all that goes through it."""
_STOP_SECONDS: Final = 10.0
_START_SECONDS: Final = 120.0
_STARTED: Final = "Ray runtime started"
_IP: Final = re.compile(r"Local node IP: (\S+)")
_RAISED: Final = re.compile(r"[A-Za-z_.]+(?:Error|Exception): ")
"""A traceback's line of the exception."""
_RECONNECT: Final = "RAY_gcs_rpc_server_reconnect_timeout_s"
_RECONNECT_SECONDS: Final = "20"
"""After which a node that has lost its head ends; Ray's own value is a minute."""
_NICENESS: Final = "RAY_worker_niceness"
"""Ray's own value is 15: a guard below it would wait for everything else on its host."""


class NodeFailed(Exception):
    """The node does not start; the message is the exception it ended with, or the last line it wrote."""


@dataclass(frozen=True)
class NodeOptions:
    """How a node is started."""

    address: str = ""
    """HOST:PORT of the head; empty: it is the head itself."""
    port: int = 0
    """Of a head."""
    gpus: int = 0
    builders: int = 0
    resources: Mapping[str, float] = field(default_factory=dict)
    object_store_bytes: int = OBJECT_STORE_BYTES
    node_ip: str = ""
    more: tuple[str, ...] = ()
    """Further options of `ray start`."""
    environment: Mapping[str, str] = field(default_factory=dict)

    def command(self) -> list[str]:
        """Return the command that starts it and stays with it."""
        role = ["--head", f"--port={self.port}"] if not self.address else []
        if self.address:
            role = [f"--address={self.address}"]
        else:
            role += ["--include-dashboard=false", "--no-monitor"]
        return [
            # Without the folder it is started in, where a file may be called as a module of Python's.
            *(sys.executable, "-P", "-m", "ray.scripts.scripts", "start", *role),
            # A guard uses the CPUs of its host as it always does: only build slots are placed by them.
            *(f"--num-cpus={self.builders}", f"--num-gpus={self.gpus}"),
            f"--resources={json.dumps(dict(self.resources))}",
            f"--object-store-memory={self.object_store_bytes}",
            *([f"--node-ip-address={self.node_ip}"] if self.node_ip else []),
            *("--include-log-monitor=false", "--disable-usage-stats", "--log-style=record"),
            *("--block", *self.more),
        ]


class Node:
    """One node; stopped with all its actors."""

    def __init__(self, options: NodeOptions) -> None:
        """Describe it; nothing is started yet."""
        self._options = options
        self._process: subprocess.Popen[str] | None = None
        self._said: list[str] = []

    def start(self) -> None:
        """Start it and return when it is up; NodeFailed where it does not come up.

        It ends with the thread that calls this.
        """
        self._process = subprocess.Popen(
            tethered(self._options.command()),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
            env={
                _RECONNECT: _RECONNECT_SECONDS,
                _NICENESS: "0",
                "RAY_USAGE_STATS_ENABLED": "0",
                **os.environ,
                **self._options.environment,
            },
        )
        assert self._process.stdout is not None
        # Reading has no deadline of its own, and what hangs says nothing.
        late = threading.Timer(_START_SECONDS, _kill, (self._process,))
        late.daemon = True
        late.start()
        try:
            for line in self._process.stdout:
                self._said.append(line.strip())
                if _STARTED in line:
                    rest = threading.Thread(
                        target=_drain, args=(self._process.stdout,), daemon=True
                    )
                    rest.start()
                    return
        finally:
            late.cancel()
        self._process.stdout.close()
        self.stop()
        raise NodeFailed(f"`ray start` failed: {_cause(self._said)}")

    @property
    def ip(self) -> str:
        """Return the address by which Ray has other hosts reach this node; empty where it said none."""
        found = (_IP.search(line) for line in self._said)
        return next((one[1] for one in found if one), "")

    @property
    def ended(self) -> bool:
        """Say whether it is gone."""
        return self._process is None or self._process.poll() is not None

    @property
    def pid(self) -> int | None:
        """Return the process id of what keeps it, or None."""
        return None if self._process is None else self._process.pid

    def stop(self) -> None:
        """End it."""
        process, self._process = self._process, None
        if process is None:
            return
        for number in (signal.SIGTERM, signal.SIGKILL):
            if process.poll() is None:
                with suppress(ProcessLookupError):
                    os.killpg(process.pid, number)
                with suppress(subprocess.TimeoutExpired):
                    process.wait(_STOP_SECONDS)


def _cause(said: list[str]) -> str:
    """Return the line that says why: the last exception's first, which others may follow, or the last."""
    written = [line for line in said if line]
    raised = [line for line in written if _RAISED.match(line)]
    return next(reversed(raised or written), "it wrote nothing")


def _kill(process: subprocess.Popen[str]) -> None:
    """Kill a process that leads a group, with its group."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


def _drain(lines: IO[str]) -> None:
    """Read what nobody needs, so that who writes it does not wait."""
    with lines:
        for _ in lines:
            pass
