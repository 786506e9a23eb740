"""Speaking MCP to a campaign, over HTTP with a token or over a server process of our own."""

import os
import re
import shutil
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

import httpx2
from mcp import Client, MCPError, StdioServerParameters
from mcp.client.streamable_http import streamable_http_client
from mcp.types import CONNECTION_CLOSED, TextContent

CALL_SECONDS: Final = 120.0
"""Longer than any tool waits; a server that says nothing for so long is lost."""


HANDED_ON: Final = (
    "KERNELARC_GUARD_PYTHON",
    "KERNELARC_ALLOW_UNSANDBOXED",
    "KERNELARC_LOCK_CLOCKS",
    "FLASHINFER_TRACE_DIR",
    "FIB_DATASET_PATH",
    "XDG_CACHE_HOME",
    "CXX",
    "CUDA_HOME",
    "CUDA_PATH",
    "CUDA_VISIBLE_DEVICES",
    "LD_LIBRARY_PATH",
)
"""What server and guard read of their environment; a token is not among it."""


NOBODY: Final = "nobody answers there; `kernelarc-mcp serve DIR --http HOST:PORT` starts a server"
ELSEWHERE: Final = (
    "no MCP server; its path is /mcp, or /c/NAME/mcp where it serves several campaigns"
)
KNOWN: Final = {401: "the server knows no such token", 404: ELSEWHERE, 405: ELSEWHERE}
"""Status of an answer to an empty request -> what is wrong; as in minimal.py, which is copied alone."""
COUNTED: Final = re.compile(r"[:,]? (?:pair \d|workload \d|\w+ started).*")
"""What changes too often in a sign of life to be told."""


class ToolFailed(Exception):
    """A tool refused the call; the text says why."""


class NoServer(ToolFailed):
    """There is no server of the campaign to speak to; the text says where, and what to do."""


def innermost(failure: BaseException) -> BaseException:
    """Return the first failure; the client runs in tasks of its own, so that they come in nested groups."""
    while isinstance(failure, BaseExceptionGroup):
        failure = failure.exceptions[0]
    return failure


def said(failure: BaseException) -> str:
    """Return what went wrong."""
    failure = innermost(failure)
    return str(failure) or type(failure).__name__


class Campaign:
    """The tools of one campaign as plain calls that return dictionaries."""

    def __init__(self, client: Client) -> None:
        self.client = client
        """For what is no tool: subscriptions."""
        self.judging = ""
        """What is judged; a judgement's steps are printed under it, on stderr. Empty: they are not."""
        self._step = ""

    async def call(self, tool: str, **arguments: Any) -> dict[str, Any]:
        """Call a tool and return its answer; raise ToolFailed where it is an error."""
        told = self._told if self.judging else None
        result = await self.client.call_tool(
            tool, arguments, read_timeout_seconds=CALL_SECONDS, progress_callback=told
        )
        if result.is_error:
            texts = [part.text for part in result.content if isinstance(part, TextContent)]
            raise ToolFailed(" ".join(texts))
        if not isinstance(result.structured_content, dict):
            raise ToolFailed(f"{tool} answered without structured content")
        return result.structured_content

    async def judged(self, view: dict[str, Any]) -> dict[str, Any]:
        """Wait for a submission's verdict, however long it takes, and return its view."""
        turn = 0
        while view["state"] != "done":
            turn += 1
            view = await self.call("wait_submission", ticket=view["ticket"], turn=turn)
        return view

    async def _told(self, progress: float, total: float | None, message: str | None) -> None:
        step = COUNTED.sub("", message or "")
        if step != self._step:
            self._step = step
            print(f"{self.judging}: {step}", file=sys.stderr, flush=True)


def server_environment(agent: str) -> dict[str, str]:
    """Return what a server process for `agent` is given beside the SDK's own short list."""
    given = {name: os.environ[name] for name in HANDED_ON if os.environ.get(name)}
    return {**given, "KERNELARC_AGENT": agent}


@asynccontextmanager
async def over_http(url: str, token: str) -> AsyncIterator[Campaign]:
    """Connect to a server of several clients; the token says which agent this is.

    NoServer where nobody answers there, no campaign is served there or the token is unknown.
    """
    headers = {"Authorization": f"Bearer {token}"}
    # Judging may keep a response open for a minute; the calls have their own deadline.
    async with httpx2.AsyncClient(headers=headers, timeout=CALL_SECONDS) as http:
        try:
            status = (await http.post(url)).status_code
        except httpx2.ConnectError:
            raise NoServer(f"{url}: {NOBODY}") from None
        if status in KNOWN:
            raise NoServer(f"{url}: {KNOWN[status]}")
        async with Client(streamable_http_client(url, http_client=http)) as client:
            yield Campaign(client)


@asynccontextmanager
async def over_stdio(folder: Path, agent: str) -> AsyncIterator[Campaign]:
    """Start a server process for the campaign in `folder` and speak to it as `agent`.

    NoServer where it ends of itself; its own words are on stderr then.
    """
    beside = Path(sys.executable).with_name("kernelarc-mcp")
    command = str(beside) if beside.is_file() else shutil.which("kernelarc-mcp")
    if command is None:
        raise ToolFailed("the command kernelarc-mcp is not installed here")
    server = StdioServerParameters(
        command=command, args=["serve", str(folder)], env=server_environment(agent)
    )
    try:
        async with Client(server) as client:
            yield Campaign(client)
    except* MCPError as lost:
        first = innermost(lost)
        if isinstance(first, MCPError) and first.code == CONNECTION_CLOSED:
            raise NoServer(
                f"the server process for {folder} ended; its own line above says why"
            ) from None
        raise
