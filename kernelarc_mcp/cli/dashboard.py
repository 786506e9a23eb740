"""`dashboard`: look at a campaign in a browser where no server of it runs."""

from typing import Annotated

import anyio
import typer

from kernelarc_mcp.cli.addresses import address_and_port
from kernelarc_mcp.cli.console import UserError, err, out
from kernelarc_mcp.cli.options import CampaignDir
from kernelarc_mcp.host.readable import readable
from kernelarc_mcp.web.names import LOOPBACK, Names

DEFAULT_PLACE = "127.0.0.1:8766"


def dashboard(
    folder: CampaignDir,
    http: Annotated[
        str,
        typer.Option("--http", metavar="[HOST:]PORT", help="Where (port 0: a free one)."),
    ] = DEFAULT_PLACE,
    allow_host: Annotated[
        list[str] | None,
        typer.Option(
            "--allow-host",
            metavar="NAME",
            help="A name browsers may reach it by, beside loopback; needed to bind elsewhere.",
        ),
    ] = None,
) -> None:
    """Show a campaign in a browser, without a server of it: nothing is judged, nothing written.

    Prints a link with a token that is good until this ends (Ctrl-C). A running campaign is followed
    live; one that this user cannot write is shown as it was when this began.
    """
    address, port = address_and_port(http, DEFAULT_PLACE)
    if address not in LOOPBACK and not allow_host:
        raise UserError(f"--http: {address} is not loopback; say with --allow-host who it is for")
    # Importing it takes half a second, which only this command should cost.
    from kernelarc_mcp.dashboard.alone import show
    from kernelarc_mcp.web.listening import CannotListen

    def listening(link: str) -> None:
        err.print(f"Showing {folder} until Ctrl-C. Open", markup=False)
        out.print(link, markup=False)

    with readable(folder) as campaign:
        try:
            anyio.run(show, campaign, address, port, Names.of(allow_host or []), listening)
        except CannotListen as error:
            raise UserError(f"--http: {error}") from None
