"""`agent`: who may take part in a campaign."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from kernelarc_mcp.cli.console import out, print_json
from kernelarc_mcp.cli.options import CampaignDir, Json
from kernelarc_mcp.host.host import Host

agent_app = typer.Typer(help="Add agents to a campaign, list them, or revoke their tokens.")
Name = Annotated[str, typer.Argument(metavar="NAME", help="The agent's name.")]


@agent_app.command()
def add(
    folder: CampaignDir,
    name: Name,
    attempts: Annotated[
        int,
        typer.Option(
            min=0,
            help="Attempts a new agent brings with it; needed where attempts are split, and none "
            "where there is a pool.",
        ),
    ] = 0,
    as_json: Json = False,
) -> None:
    """Let an agent in and print its token, once. A known agent gets one more token.

    Where attempts are split, the error budget that is left is divided anew: each share gives a part
    to the newcomer's, so that the campaign's whole budget stays what it was.
    """
    with opened(folder) as host:
        token = host.add_agent(name, attempts)
    if as_json:
        print_json({"agent": name, "token": token})
    else:
        out.print(f"{name}: {token}", markup=False)
        out.print("It is shown only now.")


@agent_app.command()
def revoke(folder: CampaignDir, name: Name) -> None:
    """Revoke all tokens of an agent; what it did stays."""
    with opened(folder) as host:
        count = host.revoke(name)
    out.print(f"{name}: {count} token{'' if count == 1 else 's'} revoked", markup=False)


@agent_app.command("list")
def list_agents(folder: CampaignDir, as_json: Json = False) -> None:
    """List the agents: attempts used and left, and how many valid tokens each has."""
    with opened(folder) as host:
        valid = [
            row.name for row in host.token_rows() if row.role == "agent" and not row.revoked_at
        ]
        rows = [
            {
                "agent": row.agent,
                "attempts_used": row.attempts_used,
                "attempts_left": row.attempts_left,
                "tokens": valid.count(row.agent),
            }
            for row in host.board().agents
        ]
    if as_json:
        print_json(rows)
        return
    for row in rows:
        out.print(
            f"{row['agent']}: {row['attempts_used']} attempts used, {row['attempts_left']} left,"
            f" {row['tokens']} valid tokens",
            markup=False,
        )


@contextmanager
def opened(folder: Path) -> Iterator[Host]:
    """Yield a campaign's host for the length of one command."""
    host = Host.open(folder)
    try:
        yield host
    finally:
        host.close()
