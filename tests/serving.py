"""How tests talk to a server: in memory, and reading what it answered."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Literal

from mcp import Client
from mcp.types import CallToolResult, TextContent

from kernelarc_mcp.host.host import Host
from kernelarc_mcp.server import build_server

Era = Literal["auto", "legacy"]
ERAS: tuple[Era, ...] = ("auto", "legacy")


@asynccontextmanager
async def connected(host: Host, agent: str, guard: str, era: Era = "auto") -> AsyncIterator[Client]:
    """Yield a client of an in-memory server that takes every call to be `agent`'s."""
    server = build_server(host, guard_python=guard, agent=agent)
    async with Client(server, mode=era) as client:
        yield client


def text_of(result: CallToolResult) -> str:
    """Return the one text of a result."""
    (content,) = result.content
    assert isinstance(content, TextContent)
    return content.text


def answer_of(result: CallToolResult) -> dict[str, Any]:
    """Return the structured answer of a call that must have succeeded."""
    assert not result.is_error, text_of(result)
    assert result.structured_content is not None
    answer: dict[str, Any] = result.structured_content
    return answer


def refusal_of(result: CallToolResult) -> str:
    """Return the text of a call that must have been refused."""
    assert result.is_error, result.structured_content
    return text_of(result)
