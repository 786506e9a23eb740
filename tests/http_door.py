"""A real HTTP server process as its attackers and its honest clients see it."""

import json
import re
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx2
from server_campaigns import Place

PATIENCE = 90.0
"""Seconds a test waits for what must come: for a machine that does much else."""
ACCEPT = {
    "Content-Type": "application/json",
    "Accept": "application/json, text/event-stream",
}
_MODERN = "2026-07-28"


@dataclass
class Door:
    """A server process and how to reach it."""

    place: Place
    process: subprocess.Popen[str]
    url: str
    lines: list[str] = field(default_factory=list)
    """What it has written to its standard error, and, once it has ended, to its log files."""

    @property
    def base(self) -> str:
        """Return the URL without a path."""
        return self.url.removesuffix("/mcp")

    @property
    def address(self) -> tuple[str, int]:
        """Return where it listens."""
        parts = urlsplit(self.url)
        assert parts.hostname and parts.port
        return parts.hostname, parts.port

    def bearer(self, agent: str) -> dict[str, str]:
        """Return the headers of an agent's requests."""
        return ACCEPT | {"Authorization": f"Bearer {self.place.tokens[agent]}"}

    def descriptors(self) -> int:
        """Return how many file descriptors the process holds."""
        return len(list(Path(f"/proc/{self.process.pid}/fd").iterdir()))

    def resident_mib(self) -> float:
        """Return how much memory the process has resident."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        found = re.search(r"VmRSS:\s+(\d+) kB", status)
        assert found
        return int(found[1]) / 1024

    def connect(self) -> socket.socket:
        """Open a connection."""
        return socket.create_connection(self.address, timeout=PATIENCE)

    def raw(self, request: bytes) -> bytes:
        """Send bytes and return all that comes until the server closes the connection."""
        with self.connect() as connection:
            connection.sendall(request)
            return all_of(connection)

    def board_as(self, agent: str, http: httpx2.Client) -> dict[str, Any]:
        """Read the board as an honest client does; it must be served."""
        answered = http.post(
            self.url, headers=modern(self.bearer(agent), "view_leaderboard"), json=tool_call({})
        )
        assert answered.status_code == 200, answered.text
        result: dict[str, Any] = answered.json()["result"]
        assert not result.get("isError"), result
        board: dict[str, Any] = result["structuredContent"]
        return board

    def metrics(self, token: str = "") -> str:
        """Return what a scrape gives."""
        headers = {"Authorization": f"Bearer {token or self.place.tokens['ada']}"}
        answered = httpx2.get(f"{self.base}/metrics", headers=headers, timeout=PATIENCE)
        assert answered.status_code == 200, answered.text
        return answered.text

    def refused(self, cause: str) -> int:
        """Return how often the server says it refused something for a cause."""
        found = re.search(
            rf'^kernelarc_http_refused_total{{cause="{cause}"}} (\S+)$', self.metrics(), re.M
        )
        assert found
        return int(float(found[1]))


@contextmanager
def door(place: Place, guard: str, *options: str, descriptors: int = 0) -> Iterator[Door]:
    """Yield a server of a campaign, with at most so many file descriptors; its log must stay silent
    about tokens."""
    command = [sys.executable, "-m", "kernelarc_mcp", "serve", str(place.folder)]
    command += ["--http", "127.0.0.1:0", "--guard-python", guard, *options]
    if descriptors:
        command = ["sh", "-c", f'ulimit -n {descriptors}; exec "$@"', "sh", *command]
    process = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stderr is not None
    lines: list[str] = []
    reading: threading.Thread | None = None
    try:
        found = None
        for line in process.stderr:
            lines.append(line)
            if (found := re.search(r"http://\S+/mcp", line)) is not None:
                break
        assert found, "".join(lines)
        reading = threading.Thread(target=lines.extend, args=(process.stderr,))
        reading.start()
        yield Door(place, process, found.group(), lines)
    finally:
        process.terminate()
        process.wait(20)
        if reading is not None:
            reading.join()
        process.stderr.close()
    lines += [path.read_text() for path in sorted(place.folder.glob("logs/*.log"))]
    log = "".join(lines)
    for token in place.tokens.values():
        assert token not in log


def all_of(connection: socket.socket) -> bytes:
    """Return what comes until the other side ends the connection."""
    got = bytearray()
    try:
        while part := connection.recv(65536):
            got += part
    except ConnectionResetError:
        pass
    return bytes(got)


def tool_call(arguments: dict[str, Any], tool: str = "view_leaderboard") -> dict[str, Any]:
    """Return a tools/call request of the newer era."""
    return request("tools/call", {"name": tool, "arguments": arguments})


def request(method: str, params: dict[str, Any]) -> dict[str, Any]:
    """Return a request of the newer era."""
    meta = {
        "io.modelcontextprotocol/protocolVersion": _MODERN,
        "io.modelcontextprotocol/clientCapabilities": {},
        "io.modelcontextprotocol/clientInfo": {"name": "raw", "version": "1"},
    }
    return {"jsonrpc": "2.0", "id": 1, "method": method, "params": {"_meta": meta, **params}}


def modern(headers: dict[str, str], tool: str) -> dict[str, str]:
    """Return the headers of a tools/call of the newer era."""
    return headers | {
        "MCP-Protocol-Version": _MODERN,
        "Mcp-Method": "tools/call",
        "Mcp-Name": tool,
    }


def initialize() -> dict[str, Any]:
    """Return the request that opens a session of the handshake era."""
    hello = {
        "protocolVersion": "2025-06-18",
        "capabilities": {},
        "clientInfo": {"name": "raw", "version": "1"},
    }
    return {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello}


def head(door: Door, path: str = "/mcp", method: str = "POST", **headers: str) -> bytes:
    """Return the head of a request, with the right Host unless `Host` says otherwise."""
    host, port = door.address
    given = {"Host": f"{host}:{port}"} | {k.replace("_", "-"): v for k, v in headers.items()}
    lines = [f"{method} {path} HTTP/1.1", *(f"{k}: {v}" for k, v in given.items())]
    return ("\r\n".join(lines) + "\r\n\r\n").encode()


def until(true: Callable[[], bool], what: str) -> None:
    """Wait for what must become true."""
    deadline = time.monotonic() + PATIENCE
    while not true():
        assert time.monotonic() < deadline, what
        time.sleep(0.05)


def body(message: dict[str, Any]) -> bytes:
    """Return a message as bytes."""
    return json.dumps(message).encode()
