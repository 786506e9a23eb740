"""Serving one client over this process's standard input and output."""

import sys

from mcp.server import MCPServer

from kernelarc_mcp.wire import take_stdin


async def serve_stdio(server: MCPServer[None]) -> None:
    """Serve until the client closes standard input."""
    sys.stdin = take_stdin()
    await server.run_stdio_async()
