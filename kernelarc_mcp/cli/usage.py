"""`usage`: record in the ledger what a client says a run of an agent used."""

from typing import Annotated

import typer
from pydantic import ValidationError

from kernelarc_mcp.cli.agent import opened
from kernelarc_mcp.cli.console import UserError, out, print_json
from kernelarc_mcp.cli.options import CampaignDir, Json
from kernelarc_mcp.host.usage import Used


def usage(
    folder: CampaignDir,
    agent: Annotated[str, typer.Argument(metavar="AGENT", help="Whose client it was.")],
    run: Annotated[
        str, typer.Option("--run", help="Names the run; the same one is recorded only once.")
    ],
    client: Annotated[str, typer.Option("--client", help="Such as claude or codex.")] = "",
    input_tokens: Annotated[
        int | None,
        typer.Option("--input-tokens", help="Tokens read; leave out what the client did not say."),
    ] = None,
    output_tokens: Annotated[
        int | None, typer.Option("--output-tokens", help="Tokens written; likewise.")
    ] = None,
    cost: Annotated[
        float | None, typer.Option("--cost", help="US dollars; leave it out where not known.")
    ] = None,
    cached_tokens: Annotated[
        int | None,
        typer.Option("--cached-tokens", help="Of the tokens read, those from a cache; likewise."),
    ] = None,
    model: Annotated[
        str, typer.Option("--model", help="Its vendor's name, such as claude-opus-5.")
    ] = "",
    as_json: Json = False,
) -> None:
    """Record what a run of an agent's client used, as a row of the ledger.

    Board, `status` and `report` show the sums; in a campaign with a limit on `money` known costs
    count towards it, and nothing else is decided by them. What is left out is unknown, not zero. Where no cost is given, one follows from a table of prices (docs/dashboard.md)
    if the model and all tokens are.
    """
    try:
        used = Used(
            run=run,
            client=client,
            input_tokens=input_tokens,
            output_tokens=output_tokens,
            cost_usd=cost,
            cached_tokens=cached_tokens,
            model=model,
        )
    except ValidationError as error:
        first = error.errors()[0]
        if not first["loc"]:
            raise UserError(f"--cached-tokens: {first['msg']}") from None
        option = {"cost_usd": "cost"}.get(str(first["loc"][0]), str(first["loc"][0]))
        raise UserError(f"--{option.replace('_', '-')}: {first['msg']}") from None
    with opened(folder) as host:
        stored = host.record_usage(agent, used)
    if as_json:
        print_json({"agent": agent, "run": run, "recorded": stored})
    else:
        told = "recorded" if stored else "was recorded before; nothing changed"
        out.print(f"{agent}: run {run} {told}", markup=False)
