"""`experiment`: compare ways to search, run by run, and report what is there."""

from pathlib import Path
from typing import Annotated

import anyio
import typer

from kernelarc_guard.problem import Problem, read_problem
from kernelarc_mcp.cli.children import Stopped, stopped_by_signals
from kernelarc_mcp.cli.console import UserError, out
from kernelarc_mcp.cli.experiment_runs import carry_out
from kernelarc_mcp.cli.options import AllowUnsandboxed, GuardPython, guard_python, problem_folder
from kernelarc_mcp.experiments.anew import Measured, measure, read_anew
from kernelarc_mcp.experiments.file import Experiment, ExperimentError, read_experiment, settings_of
from kernelarc_mcp.experiments.folder import begun, check_same, runs_of
from kernelarc_mcp.experiments.outcome import Outcome, read_outcome
from kernelarc_mcp.host.guard_client import GuardError
from kernelarc_mcp.host.lenses import eligible_lenses


def experiment(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The experiment, as YAML.")],
    folder: Annotated[
        Path | None,
        typer.Option(
            "--dir",
            metavar="DIR",
            help="Where its runs are, or will be.",
            show_default="experiments/NAME",
        ),
    ] = None,
    report: Annotated[
        bool, typer.Option("--report", help="Run nothing: write the report of what is there.")
    ] = False,
    anew: Annotated[
        bool,
        typer.Option(
            "--anew",
            help="Run nothing: measure every run's records again beside the seed, in one sitting, so "
            "that runs of different hours can be compared; then report.",
        ),
    ] = False,
    target: Annotated[
        Path | None,
        typer.Option(
            "--out",
            metavar="FOLDER",
            help="Where the report is written.",
            show_default="DIR/report",
        ),
    ] = None,
    guard: GuardPython = "",
    allow_unsandboxed: AllowUnsandboxed = False,
) -> None:
    """Run an experiment's campaigns, arm by arm in turn, and write its report.

    It may be interrupted and started again: what is finished is not run again, a campaign that is half
    way goes on. Exit status 1 where a run could not be finished.
    """
    try:
        plan = read_experiment(file)
        place = folder or Path("experiments") / plan.name
        failed = []
        if report:
            check_same(place, plan)
        elif anew:
            check_same(place, plan)
            with begun(place, plan), stopped_by_signals():
                _measure(plan, place, guard_python(guard))
        else:
            problem = _problem(plan, file)
            with begun(place, plan), stopped_by_signals():
                failed = _run_all(plan, place, problem, guard_python(guard))
        _report(plan, place, target or place / "report")
    except ExperimentError as error:
        raise UserError(f"{file}: {str(error).removeprefix(f'{file}: ')}") from None
    if failed:
        raise typer.Exit(1)


def _problem(plan: Experiment, file: Path) -> Problem:
    beside = file.parent / plan.problem
    found = beside if beside.is_dir() else problem_folder(plan.problem)
    problem = read_problem(found)
    definition = problem.definition
    lenses = eligible_lenses(definition.operator_class, plan.device)
    for arm in plan.arms:  # all of it is checked before anything runs
        settings_of(plan, arm, definition.name, 1, lenses)
    return problem


def _run_all(plan: Experiment, place: Path, problem: Problem, python: str) -> list[str]:
    """Bring every run to its end; return the names of those that are not."""
    failed = []
    for run in runs_of(plan, place):
        before = read_outcome(run)
        if run.outcome.is_file():
            continue
        name = f"{run.arm.name} {run.number}"
        begins = "begins" if before.state == "not begun" else f"goes on after {before.used}"
        out.print(f"{name}: {begins}, seed {run.seed}", markup=False)
        try:
            outcome, trouble = carry_out(plan, run, problem, place, python)
        except (KeyboardInterrupt, Stopped):
            out.print(f"{name}: stopped; the same command goes on from here", markup=False)
            raise
        out.print(f"{name}: {_line(outcome)}{f'; {trouble}' if trouble else ''}", markup=False)
        if trouble:
            failed.append(name)
    return failed


def _measure(plan: Experiment, place: Path, python: str) -> None:
    """Measure what was not measured again yet."""
    runs = list(runs_of(plan, place))

    def tell(name: str, one: Measured) -> None:
        failed = f"{one.failed}: {one.detail}" if one.detail else one.failed
        ratio = failed if one.ratio is None else f"{one.ratio.ratio:.3f}x the seed"
        out.print(f"{name}: {ratio}", markup=False)

    try:
        anyio.run(measure, runs, place, python, tell)
    except GuardError as error:
        raise UserError(f"the guard could not measure: {error}") from None


def _line(outcome: Outcome) -> str:
    spent = f"{outcome.judged} of {outcome.attempts} attempts"
    return f"{outcome.state}, {spent}, {outcome.speedup:.3f}x the seed"


def _report(plan: Experiment, place: Path, target: Path) -> None:
    # scipy takes a second to import.
    from kernelarc_mcp.experiments.summary import summarise
    from kernelarc_mcp.experiments.writing import write_report

    found = summarise(plan, [read_outcome(run) for run in runs_of(plan, place)], read_anew(place))
    try:
        written = write_report(target, found)
    except OSError as error:
        raise UserError(f"--out: {target}: cannot be written: {error.strerror}") from None
    for row in found.arms:
        out.print(row.line(), markup=False)
    for path in written:
        out.print(f"wrote {path}", markup=False, soft_wrap=True)
