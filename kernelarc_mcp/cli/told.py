"""What `evaluate` found, as text: the verdict, why, and a row for each workload."""

import re
from collections.abc import Sequence
from typing import Final

from rich.table import Table

from kernelarc_guard.problem import Workload
from kernelarc_guard.protocol import BuildMessage, WorkloadReport
from kernelarc_guard.words import axes_in_words
from kernelarc_mcp.cli.console import out
from kernelarc_mcp.evaluation import Case, Checked, Evaluation
from kernelarc_mcp.host.correctness import MEANS

_LINES: Final = 8
"""Of a detail, such as an exception's; `--json` has all of it."""
_INTERPRETER: Final = re.compile(r"(\bPython/|\bObjects/|\bModules/|Binary file|libpython)")
"""Frames of the interpreter below a crash, which say nothing about the solution."""


def show_evaluation(case: Case, found: Evaluation) -> None:
    """Print a verdict."""
    colour = {"KEEP": "green", "ACCEPT": "cyan", "REVERT": "yellow"}.get(found.verdict, "red")
    out.print(f"[bold {colour}]{found.verdict}[/] {found.reason} ({found.stage})")
    _why(found.detail, found.build)
    if found.speedup is not None:
        bound = "" if found.lower is None else f", proven above {found.lower:.4f}"
        out.print(f"speedup over {found.record}: {found.speedup:.4f}{bound}")
    _rows(case, found.workloads, timed=True)
    if found.speedup is not None:
        out.print(
            "speedup: the mean over workloads of paired ratios, call beside call (geometric); the table's"
            " times are medians over all pairs, so that their quotients may differ from it",
            markup=False,
        )
    _rest(found.observations, found.warnings, found.protection)


def show_checked(case: Case, found: Checked) -> None:
    """Print whether a solution is right."""
    if found.right:
        out.print("[bold green]right[/] on every workload; nothing was timed")
    else:
        out.print(f"[bold red]{found.verdict}[/] {found.reason} ({found.stage})")
    _why(found.detail, found.build)
    _rows(case, found.workloads, timed=False)
    _rest(found.observations, found.warnings, found.protection)


def _why(detail: str, build: Sequence[BuildMessage]) -> None:
    if detail:
        out.print(shortened(detail), markup=False)
    for message in build:
        where = f"{message.file}:{message.line}"
        out.print(f"  {where}: {message.severity}: {message.message}", markup=False)


def shortened(detail: str) -> str:
    """Return a detail without the interpreter's own frames and beyond a few lines, saying so."""
    lines = detail.splitlines()
    kept = [line for line in lines if not _INTERPRETER.search(line)][:_LINES]
    left = len(lines) - len(kept)
    return "\n".join([*kept, f"[{left} more lines with --json]"] if left else kept)


def _rows(case: Case, reports: Sequence[WorkloadReport], *, timed: bool) -> None:
    if all(one.state == "not evaluated" for one in reports):
        return
    times = ("record us", "candidate us") if timed else ()
    table = Table("workload", "state", *times, "largest error", "inputs", "max_atol", "max_rtol")
    workloads = {one.uuid: one for one in case.problem.workloads}
    for one in reports:
        numbers = (_number(one.record_us), _number(one.candidate_us)) if timed else ()
        table.add_row(
            axes_in_words(one.axes, one.uuid),
            one.reason or one.state,
            *numbers,
            _number(one.max_absolute_error),
            one.worst_inputs or "",
            *_allowed(workloads.get(one.uuid)),
        )
    out.print(table)
    if any(one.worst_inputs not in (None, "own") for one in reports):
        out.print(
            "inputs: those with which the largest error was seen; what is allowed of others than the"
            " workload's own follows the size of the outputs that they have",
            markup=False,
        )
    out.print(f"allowed: {MEANS[case.problem.definition.kernelarc.tolerance]}", markup=False)


def _allowed(workload: Workload | None) -> tuple[str, str]:
    if workload is None:
        return "", ""
    return f"{workload.tolerance.max_atol:g}", f"{workload.tolerance.max_rtol:g}"


def _rest(observations: Sequence[str], warnings: Sequence[str], protection: dict[str, str]) -> None:
    for observation in observations:
        out.print(f"observed: {observation}", markup=False)
    for warning in warnings:
        out.print(f"warning: {warning}", markup=False)
    told = ", ".join(f"{key}: {value}" for key, value in protection.items())
    out.print(f"protection: {told or 'nothing ran'}", markup=False)


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.4g}"
