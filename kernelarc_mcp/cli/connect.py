"""`connect`: tell a client how to reach a campaign, and try it."""

import os
import shlex
import sys
from pathlib import Path
from typing import Annotated

import anyio
import typer

from kernelarc_mcp.cli.console import UserError, counted, err, out
from kernelarc_mcp.cli.options import CampaignDir
from kernelarc_mcp.connecting.changes import CannotChange
from kernelarc_mcp.connecting.door import (
    TOKEN_VARIABLE,
    Door,
    HttpDoor,
    http_door,
    stdio_door,
)
from kernelarc_mcp.connecting.files import LEFT_ALONE, printed, written
from kernelarc_mcp.connecting.forms import PROMPT, Client, Form, form_for
from kernelarc_mcp.data import data_dir
from kernelarc_mcp.host.host import Host

NOT_CONNECTED = 1
"""Exit status where the connection was tried and does not work."""


def connect(
    folder: CampaignDir,
    client: Annotated[Client, typer.Option("--client", help="The client to connect.")],
    agent: Annotated[
        str,
        typer.Option(
            "--agent", metavar="NAME", help="Which agent it is.", show_default="the only one"
        ),
    ] = "",
    http: Annotated[
        bool,
        typer.Option(
            "--http/--stdio",
            help="Reach a server that runs (see `serve --http`), or let the client start one.",
        ),
    ] = False,
    url: Annotated[
        str, typer.Option("--url", help="Address of the running server; implies --http.")
    ] = "",
    write: Annotated[
        bool,
        typer.Option("--write", help="Write the client's files instead of printing the entry."),
    ] = False,
    project: Annotated[
        Path, typer.Option("--project", metavar="FOLDER", help="Where the client is started.")
    ] = Path(),
    trust: Annotated[
        bool,
        typer.Option("--trust", help="Gemini CLI: let it call these tools without asking anybody."),
    ] = False,
    check: Annotated[
        bool | None,
        typer.Option(
            "--check/--no-check",
            help="Try the connection afterwards.",
            show_default="where KERNELARC_TOKEN is set, or over stdio",
        ),
    ] = None,
) -> None:
    """Print or write what a client needs to take part in a campaign, then try the connection.

    No token is ever written: over HTTP the client takes it from KERNELARC_TOKEN (VS Code asks for
    it), over stdio there is none. `--write` also puts the skill where the client looks for skills.
    Exit status 1: the connection was tried and does not work, or `--check` was given without a token.
    """
    if trust and client != "gemini":
        raise UserError("--trust: only Gemini CLI has such an entry")
    token = os.environ.get(TOKEN_VARIABLE, "")
    host = Host.open(folder)
    try:
        door: Door
        if http or url:
            who = _agent_of_token(host, token, agent)
            if client == "vscode":
                # It keeps tokens by the agent: two folders of two agents would share one.
                who = _chosen(host.agents(), who)
            door = http_door(url, folder, host.settings.name, who)
        else:
            who = _chosen(host.agents(), agent)
            door = stdio_door(folder, who)
    finally:
        host.close()
    if not project.is_dir():
        raise UserError(f"--project: {project} is no folder")
    form = form_for(client, door, trust=trust)
    _write(form, project) if write else _print(form, project)
    entry = project.resolve() / form.changes[0].path
    all_the_same = f"{entry} names this address all the same." if write else ""
    for note in form.notes:
        err.print(note, markup=False)
    err.print(f"First prompt for the agent: {PROMPT}", markup=False)
    tried = check is not False and (bool(token) or not isinstance(door, HttpDoor))
    if isinstance(door, HttpDoor) and not tried and not url and door.doubt:
        err.print(f"{door.doubt} {all_the_same}".rstrip(), markup=False)
    if check is False:
        return
    if not tried:
        err.print(
            f"Not tried: {TOKEN_VARIABLE} is not set. `new` printed a token for each agent and "
            f"`kernelarc-mcp agent add {folder} NAME` makes another (for a new agent with --attempts N, "
            "where there is no pool); export it where the client is started. Exported here too, this "
            "command tries the connection.",
            markup=False,
        )
        if check:
            raise typer.Exit(NOT_CONNECTED)
        return
    _try(door, token, who, form, all_the_same if isinstance(door, HttpDoor) else "")


def _print(form: Form, project: Path) -> None:
    path, text = printed(form)
    out.print(text, markup=False, end="")
    err.print(f"This belongs into {project.resolve() / path}; --write puts it there.", markup=False)


def _write(form: Form, project: Path) -> None:
    try:
        done = written(form, project.resolve())
    except CannotChange as error:
        raise UserError(str(error)) from None
    for path, state in done:
        out.print(f"{state:<10}  {path}", markup=False)
        if state == LEFT_ALONE:
            loop = data_dir("clients") / "skill" / "loop.md"
            err.print(f"{path} is yours: add what {loop} says to it by hand.", markup=False)


def _try(door: Door, token: str, agent: str, form: Form, all_the_same: str) -> None:
    # The MCP SDK takes more than a second to import; nothing before this needs it.
    from kernelarc_mcp.connecting.check import CannotConnect, look

    shown = _shown(door)
    err.print(f"Trying {shown}", markup=False)
    try:
        seen = anyio.run(look, door, token, form.era)
    except CannotConnect as error:
        err.print(f"kernelarc-mcp: not connected: {error}", markup=False)
        if all_the_same:
            err.print(all_the_same, markup=False)
        sys.exit(NOT_CONNECTED)
    if agent and seen.agent != agent:
        err.print(f"kernelarc-mcp: connected, but as {seen.agent}, not {agent}", markup=False)
        sys.exit(NOT_CONNECTED)
    err.print(
        f"Connected in {seen.seconds:.1f} s: {seen.server}, protocol {seen.protocol} ({form.greeting}), "
        f"{len(seen.tools)} tools ({', '.join(seen.tools)}).",
        markup=False,
    )
    err.print(
        f"get_brief: {seen.agent} on {seen.problem} ({seen.device}), lens {seen.lens}, "
        f"{counted(seen.attempts_left, 'attempt')} left. {seen.next_step}",
        markup=False,
    )


def _shown(door: Door) -> str:
    if isinstance(door, HttpDoor):
        return door.url
    env = [f"{name}={shlex.quote(value)}" for name, value in door.env.items()]
    return " ".join([*env, shlex.join([door.command, *door.args])])


def _chosen(known: list[str], given: str) -> str:
    if not given and len(known) == 1:
        return known[0]
    if given not in known:
        said = f"there is no agent {given!r}" if given else "say which agent the client is"
        raise UserError(f"--agent: {said} ({', '.join(known)})")
    return given


def _agent_of_token(host: Host, token: str, given: str) -> str:
    """Return the agent a token stands for, the given name without one; UserError if they differ."""
    if given:
        _chosen(host.agents(), given)
    if not token:
        return given
    owner = host.agent_for_token(token)
    if owner is None:
        raise UserError(f"{TOKEN_VARIABLE} is no token of the campaign in {host.folder}")
    if given and owner != given:
        raise UserError(f"--agent: {TOKEN_VARIABLE} is {owner}'s token, not {given}'s")
    return owner
