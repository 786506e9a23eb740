"""Resources: each one is a tool's function under a URI."""

from collections.abc import Awaitable
from typing import Any

from mcp.server import MCPServer
from mcp.server.mcpserver.exceptions import ResourceError, ResourceNotFoundError

from kernelarc_guard.model import Model
from kernelarc_mcp.host.errors import HostError, UnknownTicket
from kernelarc_mcp.tools import ReadingTools, SubmittingTools

BOARD = "kernelarc://board"
MEMORY = "kernelarc://memory"
_JSON = "application/json"


def add_resources(
    server: MCPServer[Any], reading: ReadingTools, submitting: SubmittingTools
) -> None:
    """Register the campaign's resources."""

    @server.resource("kernelarc://problem", title="Problem and brief", mime_type=_JSON)
    async def problem() -> str:
        """What get_brief returns."""
        return await _read(reading.get_brief())

    @server.resource("kernelarc://lens/{name}", title="Strategy lens", mime_type=_JSON)
    async def lens(name: str) -> str:
        """What get_strategy_lens returns for that name."""
        return await _read(reading.get_strategy_lens(name))

    @server.resource(BOARD, title="Leaderboard", mime_type=_JSON)
    async def board() -> str:
        """What view_leaderboard returns."""
        return await _read(reading.view_leaderboard())

    @server.resource(MEMORY, title="Wins and traps", mime_type=_JSON)
    async def memory() -> str:
        """What read_memory returns."""
        return await _read(reading.read_memory())

    @server.resource("kernelarc://submission/{ticket}", title="Submission", mime_type=_JSON)
    async def submission(ticket: str) -> str:
        """What wait_submission returns at once for that ticket."""
        return await _read(submitting.look(ticket))


async def _read(answer: Awaitable[Model]) -> str:
    try:
        return (await answer).model_dump_json()
    except UnknownTicket as error:
        raise ResourceNotFoundError(str(error)) from error
    except HostError as error:
        raise ResourceError(str(error)) from error
