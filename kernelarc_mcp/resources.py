"""Resources: each one is a tool's function under a URI."""

from collections.abc import Awaitable, Iterable
from typing import Any

from mcp.server import MCPServer
from mcp.server.mcpserver.exceptions import ResourceError, ResourceNotFoundError
from mcp.server.mcpserver.resources import TextResource

from kernelarc_guard.model import Model
from kernelarc_mcp.host.envelope import languages_of
from kernelarc_mcp.host.errors import HostError, UnknownTicket
from kernelarc_mcp.host.fitting import fitting_pages, fitting_templates
from kernelarc_mcp.host.glossary import URI as VERDICTS_URI
from kernelarc_mcp.host.glossary import verdicts_text
from kernelarc_mcp.host.guides import (
    INDEX_URI,
    TEMPLATE_URI,
    Page,
    Template,
    course_uri,
    pages,
    templates,
)
from kernelarc_mcp.host.host import Host
from kernelarc_mcp.host.interface import URI as INTERFACE_URI
from kernelarc_mcp.host.interface import interface_text
from kernelarc_mcp.tools import ReadingTools, SubmittingTools

BOARD = "kernelarc://board"
MEMORY = "kernelarc://memory"
_JSON = "application/json"
_MARKDOWN = "text/markdown"


def add_resources(
    server: MCPServer[Any], host: Host, reading: ReadingTools, submitting: SubmittingTools
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

    add_guides(server, host)


def add_guides(server: MCPServer[Any], host: Host) -> None:
    """Register what does not change: how to read a verdict, and what fits this campaign.

    Templates and pages that do not fit are not listed; a link to one can be followed all the same.
    CampaignError where one of their files is malformed.
    """
    settings = host.campaign.settings
    operator_class = host.campaign.problem.definition.operator_class
    languages = languages_of(settings.device)
    interface = interface_text(
        host.campaign.problem.definition, languages, settings.schedule.warmup_calls
    )
    courses = fitting_pages(operator_class, settings.device)
    patterns = fitting_templates(operator_class, settings.device)
    _add(
        server,
        INTERFACE_URI,
        "interface",
        "How run is called and compiled",
        "All of the brief's `interface`, and the binding tvm-ffi.",
        interface,
    )
    _add(
        server,
        VERDICTS_URI,
        "verdicts",
        "How to read a verdict",
        "An example, every reason code, the words of board and answers.",
        verdicts_text(settings),
    )
    _add(
        server,
        INDEX_URI,
        "guide",
        "What there is to read",
        "Index of courses and templates for this campaign.",
        index_text(courses, patterns),
    )
    for page in courses:
        name = f"{page.course}-{page.name or 'contents'}"
        _add(server, page.uri, name, page.title, page.summary, page.text)
    for one in patterns:
        title = f"Template ({one.language}): {one.name}"
        _add(server, one.uri, one.name, title, one.shows, one.text, "text/plain")

    @server.resource("kernelarc://template/{name}", title="Template", mime_type="text/plain")
    async def template(name: str) -> str:
        """Any template by its name, also one for other devices and operators."""
        return _found(templates().values(), TEMPLATE_URI + name)

    @server.resource("kernelarc://curriculum/{course}", title="Course", mime_type=_MARKDOWN)
    async def one_course(course: str) -> str:
        """The contents of any course."""
        return _found(pages(), course_uri(course))

    @server.resource("kernelarc://curriculum/{course}/{page}", title="Page", mime_type=_MARKDOWN)
    async def one_page(course: str, page: str) -> str:
        """Any page of any course."""
        return _found(pages(), course_uri(course, page))


def _add(
    server: MCPServer[Any],
    uri: str,
    name: str,
    title: str,
    description: str,
    text: str,
    mime_type: str = _MARKDOWN,
) -> None:
    server.add_resource(
        TextResource(
            uri=uri,
            name=name,
            title=title,
            description=description,
            mime_type=mime_type,
            text=text,
        )
    )


def _found(known: Iterable[Page | Template], uri: str) -> str:
    text = next((one.text for one in known if one.uri == uri), None)
    if text is None:
        raise ResourceNotFoundError(f"there is no {uri[:200]}; {INDEX_URI} lists what there is")
    return text


def index_text(courses: Iterable[Page], patterns: Iterable[Template]) -> str:
    """Return the index of what there is to read, in Markdown."""
    lines = ["# What there is to read", ""]
    lines += [
        f"get_brief says what to write, `{VERDICTS_URI}` how to read a verdict, get_strategy_lens"
    ]
    lines += ["the strategy to search under. This is for how to make it fast."]
    lines += ["", "## Courses, one page at a time", ""]
    lines += [f"* `{page.uri}`: {page.summary}" for page in courses if not page.name]
    lines += ["", "## Templates: short patterns that compile, to take apart and adapt", ""]
    lines += [f"* `{one.uri}` ({one.language}): {one.shows}" for one in patterns]
    return "\n".join(lines) + "\n"


async def _read(answer: Awaitable[Model]) -> str:
    try:
        return (await answer).model_dump_json()
    except UnknownTicket as error:
        raise ResourceNotFoundError(str(error)) from error
    except HostError as error:
        raise ResourceError(str(error)) from error
