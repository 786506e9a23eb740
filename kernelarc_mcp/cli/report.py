"""`report`: everything that happened in a campaign, to be handed on."""

from pathlib import Path
from typing import Annotated

import typer

from kernelarc_mcp import __version__
from kernelarc_mcp.cli.console import UserError, out, print_json
from kernelarc_mcp.cli.options import CampaignDir, Json
from kernelarc_mcp.cli.summary import print_submissions, print_summary
from kernelarc_mcp.report import Report
from kernelarc_mcp.reporting.document import read_document
from kernelarc_mcp.reporting.writing import write_report

FOLDER = "report"


def report(
    folder: CampaignDir,
    target: Annotated[
        Path | None,
        typer.Option(
            "--out", metavar="FOLDER", help="Where to write it.", show_default="DIR/report"
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """Write a campaign's report: a page that stands alone, Markdown, JSON and CSV; print its outline.

    With --json nothing is written. Exit status 0, also where `verify` finds something: the report says so.
    """
    document = read_document(folder, __version__)
    if as_json:
        print_json(document)
        return
    try:
        written = write_report(target or folder / FOLDER, document)
    except OSError as error:
        raise UserError(
            f"--out: {target or folder / FOLDER}: cannot be written: {error.strerror}"
        ) from None
    _print(document)
    for path in written:
        out.print(f"wrote {path}", markup=False, soft_wrap=True)


def _print(found: Report) -> None:
    """Print a whole report as tables."""
    print_summary(found)
    print_submissions(found)
    if found.calibration is not None:
        noise = found.calibration
        out.print(
            f"Calibration of {noise.at}: {noise.pairs} pairs of the seed with itself, "
            f"mean {noise.mean:+.3f} %, a confirmation's pair below {noise.sd_confirm:.3f} %"
        )
    left = ", ".join(f"{name or 'pool'} {left:.4f}" for name, left in found.wealth.items())
    out.print(f"Error budget left: {left}", markup=False)
    out.print(f"Device time {found.device_seconds:.1f} s")
