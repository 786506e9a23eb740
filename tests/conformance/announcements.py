"""Tools that say something beside their answer: progress, log messages, changes, what they need."""

from collections.abc import Callable
from typing import Annotated, Any

import anyio
from conformance.adding import add_tool
from mcp import MCPError
from mcp.server import MCPServer
from mcp.server.mcpserver import Context
from mcp.server.mcpserver.prompts.base import Prompt
from mcp.types import MISSING_REQUIRED_CLIENT_CAPABILITY
from pydantic import Field

_APART = 0.05
"""Seconds between two messages, as the suite wants them."""


async def progress(context: Context[Any, Any]) -> str:
    """Report progress three times."""
    for done in (0, 50, 100):
        await context.report_progress(done, 100, f"{done} of 100")
        await anyio.sleep(_APART)
    return "Reported progress three times."


async def logging(context: Context[Any, Any]) -> str:
    """Log three messages."""
    for message in ("started", "processing data", "completed"):
        await context.session.send_log_message(
            "info", f"Tool execution {message}", related_request_id=context.request_id
        )
        await anyio.sleep(_APART)
    return "Logged three messages."


async def logging_once(context: Context[Any, Any]) -> str:
    """Log one message; since 2026-07-28 it reaches only who asked for it."""
    await context.session.send_log_message(
        "info", "test_logging_tool ran", related_request_id=context.request_id
    )
    return "Logged one message."


async def needs_sampling(context: Context[Any, Any]) -> str:
    """Refuse a client that did not declare sampling."""
    able = context.client_capabilities
    if able is None or able.sampling is None:
        raise MCPError(
            MISSING_REQUIRED_CLIENT_CAPABILITY,
            "this tool needs the client's capability `sampling`",
            {"requiredCapabilities": {"sampling": {}}},
        )
    return "The client declared sampling."


async def header(
    region: Annotated[str, Field(json_schema_extra={"x-mcp-header": "Region"})] = "",
) -> str:
    """Take an argument that is mirrored in a header."""
    return f"region={region}"


def add(server: MCPServer[None]) -> None:
    """Add them."""

    async def change_tools(context: Context[Any, Any]) -> str:
        """Change the list of tools and say so."""
        server.add_tool(_nothing, name="test_dynamic_tool")
        server.remove_tool("test_dynamic_tool")
        await context.notify_tools_changed()
        return "The list of tools changed."

    async def change_prompts(context: Context[Any, Any]) -> str:
        """Change the list of prompts and say so."""
        server.add_prompt(Prompt.from_function(_nothing, name="test_dynamic_prompt"))
        server.remove_prompt("test_dynamic_prompt")
        await context.notify_prompts_changed()
        return "The list of prompts changed."

    tools: dict[str, Callable[..., Any]] = {
        "test_tool_with_progress": progress,
        "test_tool_with_logging": logging,
        "test_logging_tool": logging_once,
        "test_missing_capability": needs_sampling,
        "test_x_mcp_header": header,
        "test_trigger_tool_change": change_tools,
        "test_trigger_prompt_change": change_prompts,
    }
    for name, function in tools.items():
        add_tool(server, name, function)


def _nothing() -> str:
    """Do nothing."""
    return ""
