"""`status`: where a campaign stands now, once or kept up to date."""

import time
from pathlib import Path
from typing import Annotated

import typer
from rich.live import Live

from kernelarc_mcp.cli.console import UserError, out, print_json
from kernelarc_mcp.cli.options import CampaignDir, Json
from kernelarc_mcp.cli.submission import print_submission, submission_of
from kernelarc_mcp.cli.summary import print_summary, summary
from kernelarc_mcp.cost.told import ToldSoFar
from kernelarc_mcp.host.readable import readable
from kernelarc_mcp.report import read_report, report_of

LOOK_SECONDS = 1.0


def status(
    folder: CampaignDir,
    as_json: Json = False,
    watch: Annotated[
        bool,
        typer.Option(
            "--watch", help="Keep it up to date until Ctrl-C; a line per change where piped."
        ),
    ] = False,
    submission: Annotated[
        str,
        typer.Option(
            "--submission",
            metavar="TICKET",
            help="Show one submission: verdict, detail, compiler messages.",
        ),
    ] = "",
) -> None:
    """Say where a campaign stands: board, agents, costs, queue; or what came of one submission."""
    if watch and (as_json or submission):
        raise UserError("--watch: not with --json or --submission")
    if watch:
        follow(folder)
        return
    if submission:
        with readable(folder) as campaign:
            view = submission_of(campaign, submission)
        if as_json:
            print_json(view.model_dump(mode="json"))
        else:
            print_submission(view)
        return
    report = read_report(folder, submissions=False)
    if as_json:
        print_json(report.model_dump(mode="json", exclude={"submissions", "calibration"}))
    else:
        print_summary(report)


def follow(folder: Path) -> None:
    """Show a campaign until Ctrl-C: on a terminal in place, elsewhere a line whenever it changed."""
    with readable(folder) as campaign:
        told = ToldSoFar(campaign)
        try:
            if out.is_terminal:
                # Its own screen: a table longer than the terminal would be drawn over and over.
                with Live(console=out, screen=True, auto_refresh=False) as live:
                    while True:
                        report = report_of(campaign, told, submissions=False)
                        live.update(summary(report), refresh=True)
                        time.sleep(LOOK_SECONDS)
            before = ""
            while True:
                report = report_of(campaign, told, submissions=False)
                counts = ", ".join(f"{n} {one}" for one, n in sorted(report.verdicts.items()))
                line = (
                    f"{report.attempts_used} of {report.attempts} attempts used,"
                    f" {report.queued} queued, {len(report.judging)} being judged;"
                    f" {counts or 'no verdict yet'}; record {report.record.submission}"
                    f" {report.record.speedup:.3f}x"
                )
                if line != before:
                    out.print(line, markup=False)
                    out.file.flush()
                    before = line
                time.sleep(LOOK_SECONDS)
        except KeyboardInterrupt:
            if out.is_terminal:
                print_summary(report_of(campaign, told, submissions=False))
