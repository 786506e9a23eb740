"""How a fixture becomes a tool of the server: behind the same boundary as the product's tools."""

from collections.abc import Callable
from typing import Any

from mcp.server import MCPServer
from mcp.server.mcpserver.tools import Tool

from kernelarc_mcp.tool import make_tool


def add_tool(server: MCPServer[None], name: str, function: Callable[..., Any]) -> Tool:
    """Add `function` as the tool `name` and return the tool."""
    function.__name__ = name
    tool = make_tool(function, name)
    # The SDK takes finished tools in its constructor only.
    server._tool_manager._tools[name] = tool
    return tool
