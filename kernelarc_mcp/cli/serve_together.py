"""`serve` with several campaigns: opening each, and saying where each is."""

import sqlite3
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

import anyio
import typer

from kernelarc_mcp.cli.console import UserError, err
from kernelarc_mcp.connecting.address import remember, stopped
from kernelarc_mcp.executors import ExecutorError, make_executor
from kernelarc_mcp.host.errors import HostError
from kernelarc_mcp.host.host import Host
from kernelarc_mcp.logs import log_to_files, log_to_stderr
from kernelarc_mcp.pauses import shorten_pauses
from kernelarc_mcp.several.places import Place, places_of
from kernelarc_mcp.web.names import Names

if TYPE_CHECKING:
    from mcp.server import MCPServer

BUSY_SECONDS: Final = 3.0
"""How long a campaign waits for another process that writes to it: all others wait meanwhile."""


def serve_together(
    folders: Sequence[Path],
    where: tuple[str, int],
    *,
    names: Names,
    limits: dict[str, Any],
    python: str,
    executor: str,
    level: Literal["INFO", "WARNING"],
) -> None:
    """Serve all campaigns of these directories over HTTP until a signal ends it.

    One that cannot be opened is said and tried again while the others are served. UserError where
    none can be, or where the executor is none; CampaignError for a directory without a campaign.
    """
    places = places_of(folders)
    called = ", ".join(place.name for place in places)
    count = "1 campaign" if len(places) == 1 else f"{len(places)} campaigns"
    err.print(f"Starting the server of {count}: {called}", markup=False)
    found = {place: _opened(place) for place in places}
    hosts = [one for one in found.values() if isinstance(one, Host)]
    if not hosts:
        raise UserError("none of them can be opened: " + "; ".join(map(str, found.values())))
    try:
        make_executor(executor, hosts[0].settings, hosts[0].folder, python)
    except ExecutorError as error:
        raise UserError(f"--executor: {error}") from None
    # The MCP SDK takes more than a second to import; only serving needs it.
    from kernelarc_mcp.http import CannotListen, Rules
    from kernelarc_mcp.server import build_server
    from kernelarc_mcp.several.served import Opening
    from kernelarc_mcp.several.together import serve_several

    # Before the SDK configures logging: its handler wraps lines to a terminal's width.
    log_to_stderr(verbose=level == "INFO")
    for place in places:
        log_to_files(place.folder, place.name)

    def build(host: Host) -> "MCPServer[None]":
        # A fleet's broker gives each name its share of the devices: two campaigns may be called alike.
        named = host.settings.model_copy(update={"name": host.folder.name})
        # Looked up above: here it would hold the other campaigns up.
        judging = make_executor(executor, named, host.folder, python, look_up=False)
        return build_server(host, guard_python=python, executor=judging, log_level=level)

    at: dict[Place, str] = {}

    def listening(url: str) -> None:
        for place, one in found.items():
            if isinstance(one, Host):
                at[place] = f"{url}{place.path}/mcp"
                err.print(f"Serving {place.folder} at {at[place]}", markup=False)
                remember(place.folder, at[place])
            else:
                err.print(f"Not serving {place.folder}, but trying again: {one}", markup=False)
        err.print(f"Overview of them at {url}/", markup=False)

    def stopping() -> None:
        for place, address in at.items():
            stopped(place.folder, address)
        err.print(left_behind(hosts), markup=False)

    openings = [Opening(place, one, partial(_open, place), build) for place, one in found.items()]
    shorten_pauses()

    async def run() -> int:
        rules = Rules(names, **limits)
        return await serve_several(
            openings, *where, rules=rules, on_listening=listening, on_stopping=stopping
        )

    try:
        ended_by = anyio.run(run, backend_options={"use_uvloop": True})
    except CannotListen as error:
        raise UserError(f"--http: {error}") from None
    if ended_by:
        raise typer.Exit(128 + ended_by)


def left_behind(hosts: Sequence[Host]) -> str:
    """Say what is left when a server stops, and how it goes on."""
    queued = 0
    for host in hosts:
        # Of a campaign that cannot be read any more nothing is known.
        with suppress(HostError), host.campaign.journal.reading() as state:
            queued += len(state.unsettled)
    stay = "1 submission stays" if queued == 1 else f"{queued} submissions stay"
    waiting = f"{stay} queued" if queued else "nothing is queued"
    return f"Stopping: {waiting}; tickets stay valid, and the same command goes on"


def _open(place: Place) -> Host:
    host = Host.open(place.folder, same_machine=False)
    host.campaign.journal.ledger.busy_seconds = BUSY_SECONDS
    return host


def _opened(place: Place) -> Host | str:
    """Return a campaign, or why it cannot be opened."""
    try:
        return _open(place)
    except (HostError, sqlite3.Error, OSError) as error:
        return str(error)
