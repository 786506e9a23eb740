"""`profile`: what holds one solution up on one workload, by counters and machine code."""

from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import anyio
import typer

from kernelarc_guard.inquiries import Profiled, ProfileRequest
from kernelarc_guard.problem import read_problem
from kernelarc_guard.protocol import Compare, Progress
from kernelarc_guard.solution import read_solution
from kernelarc_mcp.cache import build_cache, guard_log
from kernelarc_mcp.cli.console import UserError, out, print_json
from kernelarc_mcp.cli.options import (
    AllowUnsandboxed,
    Device,
    GuardPython,
    Json,
    Workloads,
    guard_python,
    problem_folder,
)
from kernelarc_mcp.cli.stages import shown_stages
from kernelarc_mcp.host.campaign_profile import campaign_profile
from kernelarc_mcp.host.guard_client import GuardClient, GuardError
from kernelarc_mcp.profile_text import profile_lines

SECONDS = 900.0
_PAIRS = 2
"""Of the solution with itself, where nobody knows what a call takes."""


def profile(
    folder: Annotated[
        Path | None,
        typer.Argument(
            metavar="[DIR]",
            help="Profile a campaign's record, or a submission.",
            show_default=False,
        ),
    ] = None,
    problem: Annotated[
        str,
        typer.Option(
            "--problem", metavar="NAME|DIR", help="A problem of the library, or a problem folder."
        ),
    ] = "",
    solution: Annotated[
        Path | None,
        typer.Option(
            "--solution", metavar="PATH", help="Profile this solution.", show_default=False
        ),
    ] = None,
    submission: Annotated[
        str, typer.Option("--submission", metavar="TICKET", help="Of the campaign, not its record.")
    ] = "",
    record: Annotated[
        Path | None,
        typer.Option(
            "--record",
            metavar="PATH",
            help="Compare its machine code with this solution's.",
            show_default=False,
        ),
    ] = None,
    workload: Annotated[
        str,
        typer.Option(metavar="UUID", help="Workload to call it on.", show_default="the first"),
    ] = "",
    call_us: Annotated[
        float,
        typer.Option(
            "--call-us",
            min=0,
            help="What a call takes, where you know it.",
            show_default="a campaign knows it; else it is measured first",
        ),
    ] = 0.0,
    reports: Annotated[
        Path | None,
        typer.Option(
            "--out", metavar="DIR", help="Keep the raw reports there.", show_default=False
        ),
    ] = None,
    device: Device = "cpu",
    workloads: Workloads = "workload.jsonl",
    guard: GuardPython = "",
    allow_unsandboxed: AllowUnsandboxed = False,
    as_json: Json = False,
) -> None:
    """Profile one call of a solution: bottleneck, roofs, stalls, occupancy, machine code.

    Of a campaign's record or a submission (DIR), or of a file (--problem and --solution). On an
    NVIDIA GPU with Nsight Compute, without touching clocks; on a CPU rates and machine code alone.
    """
    kept = "" if reports is None else str(reports.resolve())
    if folder is not None:
        if problem or solution or record:
            raise UserError("profile: --problem, --solution and --record go without a campaign")
        request = campaign_profile(folder, submission, workload, str(build_cache()), kept)
    elif not problem or solution is None:
        raise UserError(
            "profile: give --problem and --solution, or the directory of a campaign"
            " (--submission for another than its record)"
        )
    elif submission:
        raise UserError("profile: --submission goes with the directory of a campaign")
    else:
        read = read_problem(problem_folder(problem), workloads)
        for option, path in (("--solution", solution), ("--record", record)):
            if path is not None and not path.exists():
                raise UserError(f"{option}: {path}: no such file or folder")
        request = ProfileRequest(
            id="profile",
            device=device,
            cache_dir=str(build_cache()),
            problem=read,
            candidate=read_solution(solution, read.definition),
            record=None if record is None else read_solution(record, read.definition),
            workload=workload or read.workloads[0].uuid,
            reports=kept,
        )
    timed = "when judged" if request.call_us else "just now"
    if call_us:
        timed = "as given"
        request = request.model_copy(update={"call_us": call_us})
    python = guard_python(guard)
    with shown_stages() as tell:
        try:
            found = anyio.run(_ask, request, python, tell)
        except GuardError as error:
            raise UserError(
                f"could not profile: {error} (guard: {python}, log: {guard_log()})"
            ) from None
    if as_json:
        print_json(found)
        return
    for line in profile_lines(found.profile, timed=timed):
        out.print(line, markup=False)
    if found.files:
        out.print(f"raw reports in {reports}: {', '.join(found.files)}", markup=False)
    out.print(f"took {found.seconds:.1f} s", markup=False)


async def _ask(request: ProfileRequest, python: str, tell: Callable[[Progress], None]) -> Profiled:
    async with GuardClient(python, guard_log()) as guard:
        if request.call_us is None:
            request = await _timed(guard, request, tell)
        answer = await guard.inquire(request, deadline=SECONDS, on_progress=tell)
    if not isinstance(answer, Profiled):
        raise GuardError("did not profile")
    return answer


async def _timed(
    guard: GuardClient, request: ProfileRequest, tell: Callable[[Progress], None]
) -> ProfileRequest:
    """Return the request with what a call takes beside itself, on its workload alone."""
    chosen = [one for one in request.problem.workloads if one.uuid == request.workload]
    if not chosen:
        return request  # the guard says which there are
    result = await guard.judge(
        Compare(
            id="time",
            device=request.device,
            cache_dir=request.cache_dir,
            schedule=request.schedule,
            problem=request.problem.model_copy(update={"workloads": chosen}),
            record=request.candidate,
            candidate=request.candidate.model_copy(update={"name": f"{request.candidate.name}_2"}),
            pairs=_PAIRS,
        ),
        deadline=SECONDS,
        on_progress=tell,
    )
    times = [one.candidate_us for one in result.workloads if one.candidate_us]
    if not times:
        why = f"{result.reason}: {result.detail}" if result.reason else "no call was timed"
        raise GuardError(f"could not time a call ({why}); --call-us MICROSECONDS does without")
    return request.model_copy(update={"call_us": times[0]})
