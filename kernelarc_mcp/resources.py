"""Resources: each one is a tool's function under a URI."""

from collections.abc import Awaitable
from typing import Any

from mcp.server import MCPServer
from mcp.server.mcpserver.exceptions import ResourceError, ResourceNotFoundError
from mcp.server.mcpserver.resources import TextResource

from kernelarc_guard.model import Model
from kernelarc_mcp.host.errors import HostError, UnknownTicket
from kernelarc_mcp.host.guides import INDEX_URI, pages, templates
from kernelarc_mcp.host.lenses import lens_names, read_lens
from kernelarc_mcp.tools import ReadingTools, SubmittingTools

BOARD = "kernelarc://board"
MEMORY = "kernelarc://memory"
_JSON = "application/json"
_MARKDOWN = "text/markdown"


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

    add_guides(server)


def add_guides(server: MCPServer[Any]) -> None:
    """Register what is the same in every campaign: an index, the courses, the templates.

    CampaignError where one of their files is malformed.
    """
    server.add_resource(
        TextResource(
            uri=INDEX_URI,
            name="guide",
            title="What there is to read",
            description="Index of courses, templates and lenses.",
            mime_type=_MARKDOWN,
            text=index_text(),
        )
    )
    for page in pages():
        server.add_resource(
            TextResource(
                uri=page.uri,
                name=f"{page.course}-{page.name or 'contents'}",
                title=page.title,
                description=page.summary,
                mime_type=_MARKDOWN,
                text=page.text,
            )
        )
    for template in templates().values():
        server.add_resource(
            TextResource(
                uri=template.uri,
                name=template.name,
                title=f"Template ({template.language}): {template.name}",
                description=template.shows,
                mime_type="text/plain",
                text=template.text,
            )
        )


def index_text() -> str:
    """Return the index of everything there is to read, in Markdown."""
    lines = ["# What there is to read", ""]
    lines += ["get_brief says what to write and how it is judged. This is for how to make it fast."]
    lines += ["", "## Courses, one page at a time", ""]
    lines += [f"* `{page.uri}`: {page.summary}" for page in pages() if not page.name]
    lines += ["", "## Strategy lenses", "", "By get_strategy_lens, or `kernelarc://lens/NAME`:", ""]
    lines += [f"* `{name}`: {read_lens(name).title}" for name in lens_names()]
    lines += ["", "## Templates: short patterns that compile", ""]
    lines += [f"* `{one.uri}` ({one.language}): {one.shows}" for one in templates().values()]
    return "\n".join(lines) + "\n"


async def _read(answer: Awaitable[Model]) -> str:
    try:
        return (await answer).model_dump_json()
    except UnknownTicket as error:
        raise ResourceNotFoundError(str(error)) from error
    except HostError as error:
        raise ResourceError(str(error)) from error
