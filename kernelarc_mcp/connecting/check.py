"""Trying a connection as a client would: connect, list the tools, read the brief."""

import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TextIO

import anyio
import httpx2
from mcp import Client, MCPError, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamable_http_client

from kernelarc_mcp.connecting.door import PATH, Door, HttpDoor, StdioDoor
from kernelarc_mcp.connecting.forms import Era
from kernelarc_mcp.several.places import BELOW

_SECONDS = 90.0


class CannotConnect(Exception):
    """The door does not lead to the campaign; the message says why and what to do."""


@dataclass(frozen=True)
class Seen:
    """What a client sees behind a door."""

    server: str
    protocol: str
    tools: list[str]
    agent: str
    problem: str
    device: str
    lens: str
    attempts_left: int
    next_step: str
    seconds: float


async def look(door: Door, token: str, era: Era = "auto") -> Seen:
    """Connect through `door` and return what is there; CannotConnect says why it does not work.

    `era` is how the client in question connects.
    """
    fault: BaseException = TimeoutError()
    with tempfile.TemporaryFile("w+", encoding="utf-8") as errors:
        try:
            with anyio.fail_after(_SECONDS):
                return await _look(door, token, era, errors)
        # The client runs in tasks of its own, so that failures come in nested groups.
        except* (MCPError, httpx2.HTTPError, OSError, CannotConnect) as failures:
            fault = _first(failures)
        if isinstance(fault, CannotConnect):
            raise fault
        errors.seek(0)
        said = [line for line in errors.read().splitlines() if line.strip()]
    if isinstance(fault, TimeoutError):
        raise CannotConnect(f"no answer within {_SECONDS:g} s") from fault
    raise CannotConnect(said[-1] if said else str(fault) or type(fault).__name__) from fault


async def _look(door: Door, token: str, era: Era, errors: TextIO) -> Seen:
    began = time.monotonic()
    async with _client(door, token, era, errors) as client:
        tools = (await client.list_tools()).tools
        result = await client.call_tool("get_brief", {})
        brief = result.structured_content
        if result.is_error or not isinstance(brief, dict):
            texts = [getattr(part, "text", "") for part in result.content]
            raise CannotConnect(f"get_brief was refused: {' '.join(texts)}")
        info, state = client.server_info, brief["state"]
        return Seen(
            server="unnamed" if info is None else f"{info.name} {info.version}",
            protocol=str(client.protocol_version),
            tools=[tool.name for tool in tools],
            agent=state["agent"],
            problem=brief["problem"],
            device=brief["device"],
            lens=state["lens"],
            attempts_left=state["attempts_left"],
            next_step=brief["next_step"],
            seconds=time.monotonic() - began,
        )


@asynccontextmanager
async def _client(door: Door, token: str, era: Era, errors: TextIO) -> AsyncIterator[Client]:
    if isinstance(door, StdioDoor):
        command = StdioServerParameters(command=door.command, args=door.args, env=door.env)
        async with Client(stdio_client(command, errlog=errors), mode=era) as client:
            yield client
        return
    headers = {"Authorization": f"Bearer {token}"}
    async with httpx2.AsyncClient(headers=headers, timeout=_SECONDS) as http:
        await _knock(http, door)
        async with Client(streamable_http_client(door.url, http_client=http), mode=era) as client:
            yield client


async def _knock(http: httpx2.AsyncClient, door: HttpDoor) -> None:
    """Refuse in our own words what the SDK would report as a broken stream."""
    url = door.url
    try:
        status = (await http.post(url)).status_code
    except (httpx2.HTTPError, httpx2.InvalidURL) as error:
        raise CannotConnect(f"nobody answers at {url} ({error}); {door.start}") from error
    if status == 401:
        raise CannotConnect(f"the server at {url} knows no such token; it serves another campaign?")
    if status in (404, 405):
        raise CannotConnect(
            f"{url} is no MCP server; its path is {PATH}, or {BELOW}/NAME{PATH} where it serves several"
            " campaigns, with the name of the campaign's folder: give it with --url"
        )
    if status == 503:
        raise CannotConnect(f"the server at {url} cannot serve this campaign now; its log says why")
    if status in (403, 421):
        raise CannotConnect(
            f"the server at {url} is not told that name; start it with --allow-host"
        )


def _first(failure: BaseException) -> BaseException:
    return _first(failure.exceptions[0]) if isinstance(failure, BaseExceptionGroup) else failure
