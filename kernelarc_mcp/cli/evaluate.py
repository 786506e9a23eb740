"""`evaluate`: judge one solution without a campaign."""

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Literal

import anyio
import typer
from rich.table import Table

from kernelarc_guard.problem import read_documents
from kernelarc_guard.protocol import Progress, Schedule
from kernelarc_guard.solution import (
    Solution,
    SolutionError,
    read_solution,
)
from kernelarc_guard.words import axes_in_words
from kernelarc_mcp.cache import build_cache, calibration_cache, guard_log
from kernelarc_mcp.calibrations import CalibrationCache
from kernelarc_mcp.cli.console import UserError, err, out, print_json
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
from kernelarc_mcp.cli.traces import write_traces
from kernelarc_mcp.evaluation import Case, Evaluation, envelope, refused
from kernelarc_mcp.evaluation import evaluate as judge
from kernelarc_mcp.host.guard_client import GuardClient, GuardError


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
    fresh: Annotated[
        bool, typer.Option("--fresh", help="Calibrate again instead of using today's calibration.")
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

    Exit status 0 for any verdict; else it could not judge and standard error says why.
    """
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
    evaluation = _judge(case, solution, guard_python(guard), fresh)
    if traces is not None:
        documents = read_documents(problem_folder(problem), workloads).workloads
        for line in write_traces(traces, evaluation, documents, case, trace_form):
            err.print(f"warning: {line}", markup=False)
    if as_json:
        print_json(evaluation)
    else:
        _show(evaluation)


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


def _show(evaluation: Evaluation) -> None:
    colour = {"KEEP": "green", "ACCEPT": "cyan", "REVERT": "yellow"}.get(evaluation.verdict, "red")
    out.print(f"[bold {colour}]{evaluation.verdict}[/] {evaluation.reason} ({evaluation.stage})")
    out.print(evaluation.detail, markup=False)
    for message in evaluation.build:
        where = f"{message.file}:{message.line}"
        out.print(f"  {where}: {message.severity}: {message.message}", markup=False)
    if evaluation.speedup is not None:
        bound = "" if evaluation.lower is None else f", proven above {evaluation.lower:.4f}"
        out.print(f"speedup over {evaluation.record}: {evaluation.speedup:.4f}{bound}")
    table = Table("workload", "state", "record us", "candidate us", "largest error")
    for workload in evaluation.workloads:
        table.add_row(
            axes_in_words(workload.axes, workload.uuid),
            workload.reason or workload.state,
            _number(workload.record_us),
            _number(workload.candidate_us),
            _number(workload.max_absolute_error),
        )
    out.print(table)
    for observation in evaluation.observations:
        out.print(f"observed: {observation}", markup=False)
    for warning in evaluation.warnings:
        out.print(f"warning: {warning}", markup=False)
    protection = ", ".join(f"{key}: {value}" for key, value in evaluation.protection.items())
    out.print(f"protection: {protection or 'nothing ran'}", markup=False)


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.4g}"
