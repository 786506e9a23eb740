"""`profile`: what holds one solution up on one workload, by counters and machine code."""

from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import anyio
import typer

from kernelarc_guard.inquiries import Profiled, ProfileRequest
from kernelarc_guard.problem import read_problem
from kernelarc_guard.protocol import Progress
from kernelarc_guard.solution import read_solution
from kernelarc_mcp.cache import build_cache, guard_log
from kernelarc_mcp.cli.console import UserError, out, print_json
from kernelarc_mcp.cli.options import (
    AllowUnsandboxed,
    Device,
    GuardPython,
    Json,
    ProblemOption,
    SolutionOption,
    Workloads,
    guard_python,
    problem_folder,
)
from kernelarc_mcp.cli.stages import shown_stages
from kernelarc_mcp.host.guard_client import GuardClient, GuardError
from kernelarc_mcp.profile_text import profile_lines

SECONDS = 900.0


def profile(
    problem: ProblemOption,
    solution: SolutionOption,
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
            "--call-us", min=0, help="What `evaluate` measured a call to take; 0: not known."
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

    On an NVIDIA GPU with Nsight Compute, without touching clocks; on a CPU rates and machine code
    alone.
    """
    read = read_problem(problem_folder(problem), workloads)
    for path in (solution, record):
        if path is not None and not path.exists():
            raise UserError(f"{path}: no such file or folder")
    definition = read.definition
    request = ProfileRequest(
        id="profile",
        device=device,
        cache_dir=str(build_cache()),
        problem=read,
        candidate=read_solution(solution, definition),
        record=None if record is None else read_solution(record, definition),
        workload=workload or read.workloads[0].uuid,
        reports="" if reports is None else str(reports.resolve()),
        call_us=call_us or None,
    )
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
    for line in profile_lines(found.profile):
        out.print(line, markup=False)
    if found.files:
        out.print(f"raw reports in {reports}: {', '.join(found.files)}", markup=False)
    out.print(f"took {found.seconds:.1f} s", markup=False)


async def _ask(request: ProfileRequest, python: str, tell: Callable[[Progress], None]) -> Profiled:
    async with GuardClient(python, guard_log()) as guard:
        answer = await guard.inquire(request, deadline=SECONDS, on_progress=tell)
    if not isinstance(answer, Profiled):
        raise GuardError("did not profile")
    return answer
