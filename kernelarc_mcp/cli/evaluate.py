"""`evaluate`: judge one solution without a campaign."""

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Literal

import anyio
import typer

from kernelarc_guard.problem import read_documents
from kernelarc_guard.protocol import Progress, Schedule
from kernelarc_guard.solution import (
    Solution,
    SolutionError,
    read_solution,
)
from kernelarc_mcp.cache import build_cache, calibration_cache, guard_log
from kernelarc_mcp.calibrations import CalibrationCache
from kernelarc_mcp.cli.console import UserError, err, print_json
from kernelarc_mcp.cli.options import (
    AllowUnsandboxed,
    Device,
    GuardPython,
    Json,
    LockClocks,
    ProblemOption,
    RecordOption,
    SolutionOption,
    ToleranceMode,
    Workloads,
    chosen_problem,
    guard_python,
    problem_folder,
    record_of,
)
from kernelarc_mcp.cli.stages import shown_stages
from kernelarc_mcp.cli.told import show_checked, show_evaluation
from kernelarc_mcp.cli.traces import write_traces
from kernelarc_mcp.evaluation import Case, Checked, Evaluation, envelope, not_right, refused
from kernelarc_mcp.evaluation import check as check_solution
from kernelarc_mcp.evaluation import evaluate as judge
from kernelarc_mcp.host.guard_client import GuardClient, GuardError

NOT_RIGHT = 1
"""Exit status of a check that found something wrong."""


def evaluate(
    problem: ProblemOption,
    solution: SolutionOption,
    record: RecordOption = None,
    device: Device = "cpu",
    workloads: Workloads = "workload.jsonl",
    tolerance: ToleranceMode = None,
    guard: GuardPython = "",
    allow_unsandboxed: AllowUnsandboxed = False,
    lock_clocks: LockClocks = 0,
    check: Annotated[
        bool,
        typer.Option(
            "--check",
            help="Stop after build and correctness; nothing is timed. Seconds, not minutes.",
        ),
    ] = False,
    fresh: Annotated[
        bool,
        typer.Option(
            "--fresh", help="Calibrate again instead of using a kept calibration (see `doctor`)."
        ),
    ] = False,
    traces: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Add the results to this file, as traces of SOL-ExecBench, one a workload.",
            show_default=False,
        ),
    ] = None,
    trace_form: Annotated[
        Literal["sol", "flashinfer"],
        typer.Option("--trace-form", help="Write traces for this benchmark."),
    ] = "sol",
    as_json: Json = False,
) -> None:
    """Judge one solution against a record, without a campaign.

    Exit status 0 for any verdict; else it could not judge and standard error says why. With --check
    the status is 1 where the solution is not right.
    """
    if check and (traces is not None or fresh):
        raise UserError("--check: nothing is timed, so that --traces and --fresh do not go with it")
    read = chosen_problem(problem, workloads, tolerance)
    case = Case(
        problem=read,
        record=record_of(record, read, device),
        device=device,
        cache_dir=str(build_cache()),
        schedule=Schedule(),
    )
    if not solution.exists():
        raise UserError(f"--solution: {solution}: no such file or folder")
    if check:
        found = _check(case, solution, guard_python(guard))
        print_json(found) if as_json else show_checked(case, found)
        if not found.right:
            raise typer.Exit(NOT_RIGHT)
        return
    evaluation = _judge(case, solution, guard_python(guard), fresh)
    if traces is not None:
        documents = read_documents(problem_folder(problem), workloads).workloads
        for line in write_traces(traces, evaluation, documents, case, trace_form):
            err.print(f"warning: {line}", markup=False)
    if as_json:
        print_json(evaluation)
    else:
        show_evaluation(case, evaluation)


def _check(case: Case, path: Path, python: str) -> Checked:
    try:
        candidate = read_solution(path, case.problem.definition)
    except SolutionError as error:
        return not_right(refused(case, path.name, error.reason, str(error)))
    rejected = envelope(case, candidate)
    if rejected is not None:
        return not_right(rejected)

    async def ask(tell: Callable[[Progress], None]) -> Checked:
        async with GuardClient(python, guard_log()) as guard:
            return await check_solution(guard, case, candidate, tell)

    with shown_stages() as tell:
        try:
            return anyio.run(ask, tell)
        except GuardError as error:
            raise UserError(
                f"could not check: {error} (guard: {python}, log: {guard_log()})"
            ) from None


def _judge(case: Case, path: Path, python: str, fresh: bool) -> Evaluation:
    try:
        candidate = read_solution(path, case.problem.definition)
    except SolutionError as error:
        return refused(case, path.name, error.reason, str(error))
    return judged(case, candidate, python, fresh)


def judged(case: Case, candidate: Solution, python: str, fresh: bool) -> Evaluation:
    """Judge a solution in a guard of its own, showing its stages; UserError where it cannot.

    `python` is the guard's interpreter; `fresh`: calibrate again.
    """
    rejected = envelope(case, candidate)
    if rejected is not None:
        return rejected
    calibrations = CalibrationCache(calibration_cache(), fresh=fresh)
    with shown_stages() as tell:
        try:
            return anyio.run(_ask, case, candidate, python, calibrations, tell)
        except GuardError as error:
            raise UserError(
                f"could not judge: {error} (guard: {python}, log: {guard_log()})"
            ) from None


async def _ask(
    case: Case,
    candidate: Solution,
    python: str,
    calibrations: CalibrationCache,
    tell: Callable[[Progress], None],
) -> Evaluation:
    async with GuardClient(python, guard_log()) as guard:
        return await judge(guard, case, candidate, calibrations, tell)
