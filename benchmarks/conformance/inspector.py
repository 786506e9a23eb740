"""What the official Inspector's command line says of our server, over stdio and HTTP."""

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from benchmarks.conformance.node import Node
from benchmarks.conformance.servers import AGENT, Ours

ERAS = ("legacy", "modern")
_SECONDS = 180.0
_STRICT = ["--method", "tools/list", "--strict"]
_BRIEF = ["--method", "tools/call", "--tool-name", "get_brief"]
_BOARD = ["--method", "resources/read", "--uri", "kernelarc://board"]


@dataclass(frozen=True)
class Look:
    """One call of the Inspector and how it ended."""

    what: str
    status: int
    output: str


def look(node: Node, ours: Ours, url: str, folder: Path) -> Iterator[Look]:
    """Yield each call: the tools' schemas, strictly; an answer against its schema; a resource."""
    folder.mkdir(parents=True)
    serve = [sys.executable, "-m", "kernelarc_mcp", "serve", str(ours.folder)]
    stdio = [*serve, "--guard-python", str(ours.guard), "-e", f"KERNELARC_AGENT={AGENT}"]
    header = f"Authorization: Bearer {ours.token}"
    http = ["--server-url", url, "--transport", "http", "--header", header]
    for era in ERAS:
        for transport, target in (("stdio", stdio), ("HTTP", http)):
            for said, method in (
                ("tools/list --strict", _STRICT),
                ("tools/call get_brief", _BRIEF),
                ("resources/read kernelarc://board", _BOARD),
            ):
                if transport == "stdio" and method is not _STRICT:
                    continue
                command = [str(node.inspector), "--cli", *target, "--protocol-era", era]
                # A loaded machine may take long to start Python.
                command += ["--connect-timeout", str(int(_SECONDS) * 1000), *method]
                done = node.run(command, _SECONDS, folder)
                yield Look(f"{transport}, {era}: {said}", done.returncode, done.stdout)
