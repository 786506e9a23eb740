"""`serve`: run a campaign's server over stdio or HTTP."""

import math
from pathlib import Path
from typing import Annotated, Literal

import anyio
import typer

from kernelarc_mcp.cli.addresses import address_and_port
from kernelarc_mcp.cli.console import UserError, err
from kernelarc_mcp.cli.options import (
    AllowUnsandboxed,
    GuardPython,
    LockClocks,
    guard_python,
)
from kernelarc_mcp.cli.serve_together import left_behind, serve_together
from kernelarc_mcp.connecting.address import remember, stopped
from kernelarc_mcp.executors import LOCAL, ExecutorError, make_executor
from kernelarc_mcp.host.host import Host
from kernelarc_mcp.launch import agent_from_environment
from kernelarc_mcp.logs import set_up_logs
from kernelarc_mcp.pauses import shorten_pauses
from kernelarc_mcp.several.places import is_several
from kernelarc_mcp.web.names import LOOPBACK, Names

DEFAULT_PORT = 8765
DEFAULT_RATE = 20.0
DEFAULT_RECEIVE_SECONDS = 15.0


def serve(
    folders: Annotated[
        list[Path],
        typer.Argument(
            metavar="DIR...",
            help="A campaign's directory; over HTTP several, or a folder of campaigns.",
        ),
    ],
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
    allow_origin: Annotated[
        list[str] | None,
        typer.Option(
            "--allow-origin",
            metavar="URL",
            help="An origin whose pages may call the HTTP server, beside its own names'.",
        ),
    ] = None,
    rate: Annotated[
        float,
        typer.Option(
            "--rate",
            min=0,
            help="Requests per second that one token's holder may send over HTTP; 0: no limit.",
        ),
    ] = DEFAULT_RATE,
    receive_seconds: Annotated[
        float,
        typer.Option(
            "--receive-seconds",
            min=1,
            help="Longest time that an HTTP request's head, and then its body, may take to arrive.",
        ),
    ] = DEFAULT_RECEIVE_SECONDS,
    open_metrics: Annotated[
        bool,
        typer.Option("--open-metrics", help="Serve /metrics without a token; on loopback only."),
    ] = False,
    executor: Annotated[
        str,
        typer.Option(
            "--executor",
            metavar="local|ray[://HOST[:PORT]]",
            help="Who judges: a guard of this machine, or a fleet by its Ray head (docs/fleet.md).",
        ),
    ] = LOCAL,
    guard: GuardPython = "",
    allow_unsandboxed: AllowUnsandboxed = False,
    lock_clocks: LockClocks = 0,
    verbose: Annotated[bool, typer.Option("--verbose", help="Log more.")] = False,
) -> None:
    """Serve a campaign: stdio for one client, or HTTP for many, and then several campaigns too.

    Over stdio the client says who it is with KERNELARC_AGENT; over HTTP every request carries a
    bearer token. Several campaigns have a path each, /c/NAME/mcp, by their folders' names.
    """
    python = guard_python(guard)
    address, port = address_and_port(http, f"127.0.0.1:{DEFAULT_PORT}") if http else ("", 0)
    hosts = allow_host or []
    if http and address not in LOOPBACK and not hosts:
        raise UserError(
            f"--http: {address} is not loopback; say with --allow-host by which name or address "
            "clients reach it"
        )
    if open_metrics and address not in LOOPBACK:
        raise UserError("--open-metrics: only with --http on loopback; elsewhere a token is needed")
    if not (math.isfinite(rate) and math.isfinite(receive_seconds)):
        raise UserError("--rate and --receive-seconds: expected finite numbers")
    try:
        names = Names.of(hosts, allow_origin or [])
    except ValueError as error:
        raise UserError(f"--allow-origin: {error}") from None
    level: Literal["INFO", "WARNING"] = "INFO" if verbose else "WARNING"
    if is_several(folders):
        if not http:
            raise UserError("over stdio one campaign is served: give one DIR, or --http PORT")
        limits = {"rate": rate, "receive_seconds": receive_seconds, "open_metrics": open_metrics}
        serve_together(
            folders,
            (address, port),
            names=names,
            limits=limits,
            python=python,
            executor=executor,
            level=level,
        )
        return
    (folder,) = folders
    host = Host.open(folder, same_machine=not http)
    try:
        judging = make_executor(executor, host.settings, folder, python)
    except ExecutorError as error:
        raise UserError(f"--executor: {error}") from None
    agent = "" if http else agent_from_environment(host.agents())
    err.print(f"Starting the server of {folder}", markup=False)
    # The MCP SDK takes more than a second to import; only serving needs it.
    from kernelarc_mcp.http import CannotListen, Rules, serve_http
    from kernelarc_mcp.server import build_server
    from kernelarc_mcp.stdio import serve_stdio

    # Before the SDK configures logging: its handler wraps lines to a terminal's width.
    set_up_logs(folder, verbose=verbose)
    server = build_server(host, guard_python=python, executor=judging, agent=agent, log_level=level)
    shorten_pauses()
    if not http:
        err.print(f"Serving {folder} to {agent} over stdio", markup=False)
        anyio.run(serve_stdio, server)
        return

    served_at = ""

    def listening(url: str) -> None:
        nonlocal served_at
        served_at = url
        remember(folder, url)
        err.print(f"Serving {folder} at {url}", markup=False)

    def stopping() -> None:
        stopped(folder, served_at)
        err.print(left_behind([host]), markup=False)

    async def run() -> int:
        rules = Rules(names, rate, receive_seconds, open_metrics)
        return await serve_http(
            server,
            host,
            address,
            port,
            rules=rules,
            on_listening=listening,
            on_stopping=stopping,
        )

    try:
        ended_by = anyio.run(run, backend_options={"use_uvloop": True})
    except CannotListen as error:
        raise UserError(f"--http: {error}") from None
    if ended_by:
        raise typer.Exit(128 + ended_by)
