"""`verify`: recompute a campaign from its rows, or judgements from their recorded pairs."""

from pathlib import Path
from typing import Annotated

import typer

from kernelarc_mcp.cli.console import UserError, out, print_json
from kernelarc_mcp.cli.options import Json
from kernelarc_mcp.host.absent import no_campaign
from kernelarc_mcp.host.ledger import FILE
from kernelarc_mcp.host.verify import verify as recompute
from kernelarc_mcp.recorded import RecordedError, verify_recorded


def check(folder: Path) -> list[str]:
    """Return one line for each row of a campaign that does not follow from the others."""
    if not (folder / FILE).is_file():
        raise UserError(no_campaign(folder, FILE))
    return recompute(folder)


def verify(
    folder: Annotated[
        Path | None,
        typer.Argument(metavar="[DIR]", help="A campaign's directory.", show_default=False),
    ] = None,
    pairs: Annotated[
        Path | None,
        typer.Option(
            "--pairs",
            metavar="FILE",
            help="A file of recorded judgements, as benchmarks/aa_study.py writes it.",
            show_default=False,
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """Recompute every counter and verdict from the recorded rows and measurements.

    Exit status 0 where all agree, 1 where they do not; then each row at fault is named.
    """
    if (folder is None) == (pairs is None):
        raise UserError("verify: give the directory of a campaign, or --pairs FILE")
    if pairs is not None:
        findings, said = _recorded(pairs)
        where = {"pairs": str(pairs)}
    else:
        assert folder is not None
        findings = check(folder)
        said = f"{folder}: every counter and verdict recomputed, all agree"
        where = {"campaign": str(folder)}
    if as_json:
        print_json({**where, "ok": not findings, "findings": findings})
    else:
        for finding in findings:
            out.print(finding, markup=False)
        if not findings:
            out.print(said, markup=False)
    if findings:
        raise typer.Exit(1)


def _recorded(path: Path) -> tuple[list[str], str]:
    try:
        count, findings = verify_recorded(path)
    except RecordedError as error:
        raise UserError(f"--pairs: {error}") from None
    return findings, f"{path}: {count} judgements decided again, all agree"
