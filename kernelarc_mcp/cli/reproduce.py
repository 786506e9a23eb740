"""`reproduce`: judge a campaign's candidate again, on this machine."""

from typing import Annotated

import typer

from kernelarc_guard.devices import default_parameters
from kernelarc_mcp.cache import build_cache
from kernelarc_mcp.cli.console import UserError, out, print_json
from kernelarc_mcp.cli.evaluate import judged
from kernelarc_mcp.cli.options import (
    AllowUnsandboxed,
    CampaignDir,
    GuardPython,
    Json,
    LockClocks,
    guard_python,
    known_device,
)
from kernelarc_mcp.evaluation import Case
from kernelarc_mcp.exporting.candidates import candidates
from kernelarc_mcp.exporting.holding import Reproduction, reproduction
from kernelarc_mcp.host.campaign import open_campaign


def reproduce(
    folder: CampaignDir,
    submission: Annotated[
        str, typer.Argument(metavar="[SUBMISSION]", help="A ticket; the record without one.")
    ] = "record",
    device: Annotated[
        str,
        typer.Option(
            metavar="cpu|cuda:N",
            callback=known_device,
            help="Device to measure on.",
            show_default="the campaign's",
        ),
    ] = "",
    guard: GuardPython = "",
    allow_unsandboxed: AllowUnsandboxed = False,
    lock_clocks: LockClocks = 0,
    fresh: Annotated[
        bool, typer.Option("--fresh", help="Calibrate again instead of using today's calibration.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Judge a candidate again, against what it was compared with, and say whether its verdict holds.

    The ledger is only read. Exit status 0 where it holds, 1 where it does not; 2 where it could not
    be judged.
    """
    campaign = open_campaign(folder)
    try:
        found = candidates(campaign)
        chosen = found.named(submission)
        if not chosen.against:
            raise UserError("the seed is the first record: it was compared with nothing")
        settings = campaign.settings
        case = Case(
            problem=campaign.problem,
            record=found.judged[chosen.against].solution,
            device=device or settings.device,
            cache_dir=str(build_cache()),
            schedule=settings.schedule,
            parameters=settings.parameters
            if device in ("", settings.device)
            else default_parameters(device),
        )
    finally:
        campaign.close()
    result = reproduction(chosen, judged(case, chosen.solution, guard_python(guard), fresh))
    if as_json:
        print_json(result)
    else:
        _show(result)
    if not result.holds:
        raise typer.Exit(1)


def _show(result: Reproduction) -> None:
    recorded = f"{result.recorded_verdict} {result.recorded_reason}"
    out.print(f"{result.submission} against {result.record}", markup=False)
    out.print(
        f"recorded: {recorded}{_gain(result.recorded_speedup, result.recorded_lower)}", markup=False
    )
    out.print(
        f"here:     {result.verdict} {result.reason}{_gain(result.speedup, result.lower)}",
        markup=False,
    )
    out.print(result.says, markup=False)


def _gain(speedup: float | None, lower: float | None) -> str:
    proven = "" if lower is None else f", proven above {lower:.4f}x"
    return "" if speedup is None else f"  {speedup:.4f}x{proven}"
