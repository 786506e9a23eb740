"""`calibrate`: measure what the noise of a problem on a device is, and what gain it can resolve."""

import math
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import anyio
import typer

from kernelarc_guard.decide import Calibration
from kernelarc_guard.devices import default_parameters
from kernelarc_guard.problem import Problem
from kernelarc_guard.protocol import Calibrate, Progress
from kernelarc_guard.solution import Solution
from kernelarc_mcp.cache import build_cache, calibration_cache, guard_log
from kernelarc_mcp.calibrations import CalibrationCache
from kernelarc_mcp.cli.console import UserError, counted, out, print_json
from kernelarc_mcp.cli.options import (
    Device,
    GuardPython,
    Json,
    LockClocks,
    RecordOption,
    ToleranceMode,
    Workloads,
    chosen_problem,
    guard_python,
    record_of,
)
from kernelarc_mcp.cli.plot import strip_plot
from kernelarc_mcp.cli.stages import shown_stages
from kernelarc_mcp.host.absent import no_campaign
from kernelarc_mcp.host.dispatcher import CALIBRATION_SECONDS, Dispatcher, machine_id
from kernelarc_mcp.host.duties import Duties
from kernelarc_mcp.host.election import SeatTaken
from kernelarc_mcp.host.guard_client import GuardClient, GuardError
from kernelarc_mcp.host.host import Host
from kernelarc_mcp.host.ledger import FILE
from kernelarc_mcp.host.submit import solution_of
from kernelarc_mcp.machine import describe_machine
from kernelarc_mcp.noise import rulers_line, toolchain_line, warnings
from kernelarc_mcp.requests import Requests


def calibrate(
    folder: Annotated[
        Path | None,
        typer.Argument(
            metavar="[DIR]",
            help="Calibrate a campaign again, which releases a quarantined device; nothing is judged"
            " meanwhile.",
            show_default=False,
        ),
    ] = None,
    problem: Annotated[
        str,
        typer.Option(
            "--problem",
            metavar="NAME|DIR|SET:NAME",
            help="A problem of the library, a problem folder, or SET:NAME.",
        ),
    ] = "",
    record: RecordOption = None,
    device: Device = "cpu",
    nurseries: Annotated[
        int,
        typer.Option(
            min=1, max=100, help="Nurseries; 3 or more reveal a bias that all pairs of one share."
        ),
    ] = 12,
    pairs: Annotated[int, typer.Option(min=2, max=1000, help="Pairs in each nursery.")] = 8,
    workloads: Workloads = "workload.jsonl",
    tolerance: ToleranceMode = None,
    guard: GuardPython = "",
    lock_clocks: LockClocks = 0,
    as_json: Json = False,
) -> None:
    """Compare a solution with itself over several nurseries: noise, shared bias, smallest gain.

    The result is stored for `evaluate` and shown by `doctor`; with DIR it is the campaign's.
    """
    python = guard_python(guard)
    if (folder is None) == (not problem):
        raise UserError("calibrate: give --problem, or the directory of a campaign")
    if folder is not None:
        _campaign(folder, python, nurseries, pairs, as_json)
        return
    read = chosen_problem(problem, workloads, tolerance)
    solution = record_of(record, read, device)
    requests = Requests(read, device, str(build_cache()), default_parameters(device))
    request = requests.calibrate("calibrate", solution, nurseries=nurseries, pairs=pairs)
    with shown_stages() as tell:
        try:
            found = anyio.run(_measure, request, python, tell)
        except GuardError as error:
            raise UserError(
                f"could not calibrate: {error} (guard: {python}, log: {guard_log()})"
            ) from None
    CalibrationCache(calibration_cache(), fresh=True).store(read, solution, found)
    _show(found, read, solution, as_json)


async def _measure(
    request: Calibrate, python: str, tell: Callable[[Progress], None]
) -> Calibration:
    async with GuardClient(python, guard_log()) as guard:
        result = await guard.judge(request, deadline=CALIBRATION_SECONDS, on_progress=tell)
    if result.calibration is None:
        raise GuardError("returned no calibration")
    return result.calibration


def _campaign(folder: Path, python: str, nurseries: int, pairs: int, as_json: bool) -> None:
    if not (folder / FILE).is_file():
        raise UserError(no_campaign(folder, FILE))
    host = Host.open(folder)
    try:
        duties = Duties(host.campaign, machine_id(), str(host.folder / "cache"))
        duties.ask_for_calibration(nurseries, pairs)
        try:
            with shown_stages() as tell:
                anyio.run(Dispatcher(host, python).run_calibration, tell)
        except SeatTaken:
            seconds = duties.calibration_seconds(nurseries * pairs)
            said = _asked_words(nurseries, pairs, seconds)
            if as_json:
                asked = {"nurseries": nurseries, "pairs": pairs, "about_seconds": seconds}
                print_json({"campaign": str(folder), "asked": True, "said": said} | asked)
            else:
                out.print(said, markup=False, soft_wrap=True)
            return
        except GuardError as error:
            raise UserError(f"could not calibrate: {error} (guard: {python})") from None
        with host.campaign.journal.reading() as state:
            found, quarantined = state.calibration, state.quarantined
            assert found is not None
            record = solution_of(host.campaign, state, state.record.ticket)
        _show(found, host.problem, record, as_json)
        if quarantined and not as_json:
            out.print(f"The device stays quarantined: {quarantined}", markup=False)
    finally:
        host.close()


def _asked_words(nurseries: int, pairs: int, seconds: float | None) -> str:
    """Say what a campaign's server was asked to measure, and for how long it judges nothing."""
    about = "how long that takes is not known yet"
    if seconds is not None:
        minutes = math.ceil(seconds / 60)
        about = "less than a minute" if minutes <= 1 else f"about {minutes} minutes"
        about += ", by what the last one took"
    of = f"{nurseries} {'nursery' if nurseries == 1 else 'nurseries'} of {pairs} pairs"
    return (
        f"The server of this campaign measures it before it judges on: {of} ({about})."
        " Nothing is judged meanwhile; `kernelarc-mcp status DIR` shows how far it is."
        " --nurseries and --pairs ask for fewer."
    )


def _show(found: Calibration, problem: Problem, record: Solution, as_json: bool) -> None:
    seen = warnings(found, "", datetime.now(UTC))
    if as_json:
        print_json(
            {
                "problem": problem.definition.name,
                "record": record.name,
                "machine": describe_machine(),
                "calibration": found.model_dump(mode="json"),
                "warnings": seen,
            }
        )
        return
    percent = "unknown" if found.resolution is None else f"{found.resolution:.2f} %"
    shared = "not measured" if found.shared_bias is None else f"at most {found.shared_bias:.3f} %"
    name = f"{problem.definition.name} on {found.device}: {record.name} against itself"
    out.print(f"{name}, {found.at}", markup=False)
    for what, value in (
        ("pairs", f"{found.pairs} in {counted(len(found.nurseries), 'nursery', 'nurseries')}"),
        (
            "blocks per pair",
            f"{found.blocks_screen} in a screen, {found.blocks_confirm} confirming",
        ),
        ("mean", f"{found.mean:+.3f} %"),
        ("sd of a screening pair", f"{found.sd_screen:.3f} %"),
        ("sd of a confirming pair", f"at most {found.sd_confirm:.3f} %"),
        ("shared bias (sd)", shared),
        ("delta: a KEEP proves more than", f"{found.delta:.3f} %"),
        ("smallest gain a first confirmation finds", percent),
        ("at best", rulers_line(found.rulers)),
        ("with", toolchain_line(found) or "not known"),
    ):
        out.print(f"  {what:<42}{value}", markup=False)
    for line in strip_plot(found.values, found.nurseries):
        out.print(line, markup=False)
    out.print(found.note, markup=False)
    verdict = (
        "The path is biased; see the warning." if found.biased else "No bias of the path seen."
    )
    out.print(verdict, markup=False)
    for warning in seen:
        out.print(f"warning: {warning}", markup=False)
