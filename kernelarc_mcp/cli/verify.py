"""`verify`: recompute a campaign from its rows."""

from pathlib import Path

import typer

from kernelarc_mcp.cli.console import UserError, out, print_json
from kernelarc_mcp.cli.options import CampaignDir, Json
from kernelarc_mcp.host.ledger import FILE
from kernelarc_mcp.host.verify import verify as recompute


def check(folder: Path) -> list[str]:
    """Return one line for each row of a campaign that does not follow from the others."""
    if not (folder / FILE).is_file():
        raise UserError(f"{folder}: no campaign here ({FILE} is missing)")
    return recompute(folder)


def verify(folder: CampaignDir, as_json: Json = False) -> None:
    """Recompute every counter and verdict from the recorded rows and measurements.

    Exit status 0 where all agree, 1 where they do not; then each row at fault is named.
    """
    findings = check(folder)
    if as_json:
        print_json({"campaign": str(folder), "ok": not findings, "findings": findings})
    else:
        for finding in findings:
            out.print(finding, markup=False)
        if not findings:
            out.print(f"{folder}: every counter and verdict recomputed, all agree", markup=False)
    if findings:
        raise typer.Exit(1)
