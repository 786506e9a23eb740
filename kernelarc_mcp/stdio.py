"""Serving one client over this process's standard input and output."""

import logging
import sys

from mcp.server import MCPServer

from kernelarc_mcp.wire import take_stdin

log = logging.getLogger(__name__)


async def serve_stdio(server: MCPServer[None]) -> None:
    """Serve until the client closes standard input, or is gone without a word."""
    sys.stdin = take_stdin()
    try:
        await server.run_stdio_async()
    except* BrokenPipeError:
        log.info("the client is gone: nobody reads this server's answers any more")
