"""`serve`: run a campaign's server over stdio or HTTP."""

import logging
import sys
from typing import Annotated, Literal

import anyio
import typer

from kernelarc_mcp.cli.console import UserError, err
from kernelarc_mcp.cli.options import (
    AllowUnsandboxed,
    CampaignDir,
    GuardPython,
    LockClocks,
    guard_python,
)
from kernelarc_mcp.host.host import Host
from kernelarc_mcp.launch import agent_from_environment

DEFAULT_PORT = 8765
LOOPBACK = ("127.0.0.1", "localhost", "::1")


def serve(
    folder: CampaignDir,
    http: Annotated[
        str,
        typer.Option(
            "--http",
            metavar="[HOST:]PORT",
            help="Serve streamable HTTP there (port 0: a free one) instead of stdio.",
        ),
    ] = "",
    allow_host: Annotated[
        list[str] | None,
        typer.Option(
            "--allow-host",
            metavar="NAME",
            help="A name clients may reach the HTTP server by, beside loopback. Needed to bind "
            "to an address that is not loopback.",
        ),
    ] = None,
    guard: GuardPython = "",
    allow_unsandboxed: AllowUnsandboxed = False,
    lock_clocks: LockClocks = 0,
    verbose: Annotated[bool, typer.Option("--verbose", help="Log more.")] = False,
) -> None:
    """Serve a campaign: stdio for one client, or HTTP for many.

    Over stdio the client says who it is with KERNELARC_AGENT; over HTTP every request carries a
    bearer token.
    """
    python = guard_python(guard)
    address, port = _address(http) if http else ("", 0)
    names = allow_host or []
    if http and address not in LOOPBACK and not names:
        raise UserError(
            f"--http: {address} is not loopback; say with --allow-host by which name or address "
            "clients reach it"
        )
    host = Host.open(folder)
    agent = "" if http else agent_from_environment(host.agents())
    err.print(f"Starting the server of {folder}", markup=False)
    # The MCP SDK takes more than a second to import; only serving needs it.
    from kernelarc_mcp.http import CannotListen, serve_http
    from kernelarc_mcp.server import build_server
    from kernelarc_mcp.stdio import serve_stdio

    # Before the SDK configures logging: its handler wraps lines to a terminal's width.
    logging.basicConfig(
        level=logging.INFO if verbose else logging.WARNING,
        format="%(asctime)s %(levelname)s %(name)s: %(message)s",
        stream=sys.stderr,
    )
    level: Literal["INFO", "WARNING"] = "INFO" if verbose else "WARNING"
    server = build_server(host, guard_python=python, agent=agent, log_level=level)
    if not http:
        err.print(f"Serving {folder} to {agent} over stdio", markup=False)
        anyio.run(serve_stdio, server)
        return

    def listening(url: str) -> None:
        err.print(f"Serving {folder} at {url}", markup=False)

    async def run() -> None:
        await serve_http(server, address, port, allowed_hosts=names, on_listening=listening)

    try:
        anyio.run(run)
    except CannotListen as error:
        raise UserError(f"--http: {error}") from None


def _address(given: str) -> tuple[str, int]:
    address, _, port = given.rpartition(":")
    address = address.strip("[]") or "127.0.0.1"
    if not port.isdecimal() or int(port) > 65535:
        raise UserError(f"--http: {given!r}: expected HOST:PORT, such as 127.0.0.1:{DEFAULT_PORT}")
    return address, int(port)
