"""`token`: who may read or manage a running server without taking part."""

from dataclasses import asdict
from typing import Annotated, Literal

import typer

from kernelarc_mcp.cli.agent import opened
from kernelarc_mcp.cli.console import out, print_json
from kernelarc_mcp.cli.options import CampaignDir, Json

token_app = typer.Typer(help="Tokens of viewers and admins, and a list of all tokens.")


@token_app.command()
def add(
    folder: CampaignDir,
    role: Annotated[
        Literal["viewer", "admin"],
        typer.Option(
            "--role",
            help="viewer: reads board, memory, verdicts and lenses, no brief and no agent's source. "
            "admin: the same, and manages tokens over HTTP.",
        ),
    ],
    name: Annotated[
        str,
        typer.Option("--name", help="Whose it is, for the list.", show_default="the role's"),
    ] = "",
    as_json: Json = False,
) -> None:
    """Print a new token of a viewer or an admin, once."""
    holder = name or role
    with opened(folder) as host:
        token = host.issue_token(holder, role)
    if as_json:
        print_json({"name": holder, "role": role, "token": token})
    else:
        out.print(f"{holder} ({role}): {token}", markup=False)
        out.print("It is shown only now.")


@token_app.command("list")
def list_tokens(folder: CampaignDir, as_json: Json = False) -> None:
    """List all tokens that were issued, agents' too, by an id that opens nothing."""
    with opened(folder) as host:
        rows = host.token_rows()
    if as_json:
        print_json([asdict(row) for row in rows])
        return
    for row in rows:
        state = "valid" if row.revoked_at is None else f"revoked {row.revoked_at}"
        out.print(f"{row.id}  {row.role:6}  {row.name}  issued {row.at}  {state}", markup=False)


@token_app.command()
def revoke(
    folder: CampaignDir,
    token_id: Annotated[str, typer.Argument(metavar="ID", help="As `token list` shows it.")],
) -> None:
    """Revoke one token, anybody's; a running server refuses it from the next request on."""
    with opened(folder) as host:
        host.revoke_token(token_id)
    out.print(f"{token_id} revoked", markup=False)
