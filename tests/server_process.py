"""Real server processes for tests: HTTP on a free port, and raw stdio."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

COMMAND = [sys.executable, "-m", "kernelarc_mcp"]


@contextmanager
def http_server(
    folder: Path, guard: str, *, port: int = 0
) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """Yield a server process and its URL, on a free port without one; it is ended on leaving."""
    process = subprocess.Popen(
        [*COMMAND, "serve", str(folder), "--http", f"127.0.0.1:{port}", "--guard-python", guard],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stderr is not None
    try:
        assert process.stderr.readline() == f"Starting the server of {folder}\n"
        line = process.stderr.readline()
        found = re.search(r"http://\S+/mcp", line)
        assert found, line + process.stderr.read()
        yield process, found.group()
    finally:
        process.terminate()
        process.communicate(timeout=20)


class RawStdio:
    """A stdio server spoken to in bytes, as a careless client would."""

    def __init__(self, folder: Path, guard: str, agent: str, stderr: int | None = None) -> None:
        """Start it as `agent` and shake hands; `stderr` is as for a process."""
        self.process = subprocess.Popen(
            [*COMMAND, "serve", str(folder), "--guard-python", guard],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=stderr,
            env={**os.environ, "KERNELARC_AGENT": agent},
        )
        hello = {
            "protocolVersion": "2025-06-18",
            "capabilities": {},
            "clientInfo": {"name": "raw", "version": "1"},
        }
        self.send({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": hello})
        self.answer(0)
        self.send({"jsonrpc": "2.0", "method": "notifications/initialized"})

    def send(self, message: dict[str, Any]) -> None:
        """Send one message as JSON."""
        self.send_bytes(json.dumps(message).encode())

    def send_bytes(self, line: bytes) -> None:
        """Send one line."""
        assert self.process.stdin is not None
        self.process.stdin.write(line + b"\n")
        self.process.stdin.flush()

    def answer(self, identity: int) -> dict[str, Any]:
        """Return the result of a request, passing over notifications."""
        assert self.process.stdout is not None
        for line in self.process.stdout:
            message: dict[str, Any] = json.loads(line)
            if message.get("id") == identity:
                assert "result" in message, message
                result: dict[str, Any] = message["result"]
                return result
        raise AssertionError("the server closed its output")

    def close(self) -> int:
        """Close its input and return its exit status."""
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.close()
        status = self.process.wait(20)
        self.process.stdout.close()
        return status


def call(identity: int, tool: str, arguments: str) -> bytes:
    """Return a tools/call line with `arguments` as given JSON text."""
    params = f'{{"name": "{tool}", "arguments": {arguments}}}'
    return f'{{"jsonrpc": "2.0", "id": {identity}, "method": "tools/call", "params": {params}}}'.encode()
