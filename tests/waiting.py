"""Clients that wait for a verdict while their server is killed: over HTTP and over stdio."""

import json
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Protocol

import httpx2
from server_process import COMMAND, RawStdio

_META = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientInfo": {"name": "waiting", "version": "1"},
    "io.modelcontextprotocol/clientCapabilities": {},
}


class Served(Protocol):
    """One agent's client with a server process of its own."""

    process: subprocess.Popen[Any]

    def call(self, tool: str, **arguments: Any) -> dict[str, Any]:
        """Call a tool and return its structured answer."""

    def begin_waiting(self, ticket: str) -> None:
        """Call wait_submission and return once its first progress has come."""

    def lost(self) -> None:
        """Make sure that the waiting call ends without an answer."""

    def kill(self) -> None:
        """Kill the server with SIGKILL."""

    def close(self) -> None:
        """Close what the client holds."""


class OverHttp:
    """A server over HTTP and a client of the era of 2026."""

    def __init__(self, folder: Path, guard: str, token: str) -> None:
        """Start the server."""
        self.process: subprocess.Popen[Any] = subprocess.Popen(
            [*COMMAND, "serve", str(folder), "--http", "127.0.0.1:0", "--guard-python", guard],
            stdin=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert self.process.stderr is not None
        found = None
        while found is None:
            line = self.process.stderr.readline()
            assert line, "the server did not start"
            found = re.search(r"http://\S+/mcp", line)
        self._url = found.group()
        self._http = httpx2.Client(timeout=120.0, headers={"Authorization": f"Bearer {token}"})
        self._waiting: httpx2.Response | None = None
        self._lines: Iterator[str] = iter(())

    def call(self, tool: str, **arguments: Any) -> dict[str, Any]:
        """Call a tool and return its structured answer."""
        response = self._open(tool, arguments)
        response.read()
        text = response.text
        if response.headers["content-type"].startswith("text/event-stream"):
            text = [line[5:] for line in text.splitlines() if line.startswith("data:")][-1]
        answer: dict[str, Any] = json.loads(text)["result"]["structuredContent"]
        return answer

    def begin_waiting(self, ticket: str) -> None:
        """Call wait_submission and return once its first progress has come."""
        self._waiting = self._open("wait_submission", {"ticket": ticket}, progress=True)
        self._lines = self._waiting.iter_lines()
        assert any("notifications/progress" in line for line in self._lines)

    def lost(self) -> None:
        """Make sure that the waiting call ends without an answer."""
        try:
            left = list(self._lines)
        except httpx2.TransportError:
            left = []
        assert not any('"result"' in line for line in left)

    def kill(self) -> None:
        """Kill the server with SIGKILL."""
        _kill(self.process)

    def close(self) -> None:
        """Close what the client holds."""
        if self._waiting is not None:
            self._waiting.close()
        self._http.close()
        assert self.process.stderr is not None
        self.process.stderr.close()

    def _open(
        self, tool: str, arguments: dict[str, Any], *, progress: bool = False
    ) -> httpx2.Response:
        meta = _META | ({"progressToken": "wait"} if progress else {})
        params = {"name": tool, "arguments": arguments, "_meta": meta}
        body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
        headers = {
            "Accept": "application/json, text/event-stream",
            "MCP-Protocol-Version": "2026-07-28",
            "Mcp-Method": "tools/call",
            "Mcp-Name": tool,
        }
        request = self._http.build_request("POST", self._url, json=body, headers=headers)
        return self._http.send(request, stream=True)


class OverStdio:
    """A server over stdio and a careless client of the era before."""

    def __init__(self, folder: Path, guard: str, agent: str) -> None:
        """Start the server."""
        self._raw = RawStdio(folder, guard, agent, stderr=subprocess.DEVNULL)
        self.process: subprocess.Popen[Any] = self._raw.process
        self._calls = 0

    def call(self, tool: str, **arguments: Any) -> dict[str, Any]:
        """Call a tool and return its structured answer."""
        self._send(tool, arguments, {})
        answer: dict[str, Any] = self._raw.answer(self._calls)["structuredContent"]
        return answer

    def begin_waiting(self, ticket: str) -> None:
        """Call wait_submission and return once its first progress has come."""
        self._send("wait_submission", {"ticket": ticket}, {"_meta": {"progressToken": "wait"}})
        assert self.process.stdout is not None
        assert any(b"notifications/progress" in line for line in self.process.stdout)

    def lost(self) -> None:
        """Make sure that the waiting call ends without an answer."""
        assert self.process.stdout is not None
        assert not any(b'"result"' in line for line in self.process.stdout)

    def kill(self) -> None:
        """Kill the server with SIGKILL."""
        _kill(self.process)

    def close(self) -> None:
        """Close what the client holds."""
        assert self.process.stdout is not None and self.process.stdin is not None
        self.process.stdout.close()
        self.process.stdin.close()

    def _send(self, tool: str, arguments: dict[str, Any], more: dict[str, Any]) -> None:
        self._calls += 1
        params = {"name": tool, "arguments": arguments, **more}
        message = {"jsonrpc": "2.0", "id": self._calls, "method": "tools/call", "params": params}
        self._raw.send(message)


def _kill(process: subprocess.Popen[Any]) -> None:
    process.kill()
    process.wait()
