"""`score`: how far a campaign's record, or one solution, is from bounds and baselines."""

from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import anyio
import typer
from rich.table import Table

from kernelarc_guard.inquiries import Count, Counted
from kernelarc_guard.problem import Problem, read_problem
from kernelarc_guard.protocol import Compare, Progress, Result
from kernelarc_guard.solution import Solution, read_solution, reference_solution
from kernelarc_guard.words import axes_in_words
from kernelarc_mcp.cache import build_cache, guard_log, roof_cache
from kernelarc_mcp.cli.console import UserError, out, print_json
from kernelarc_mcp.cli.options import (
    AllowUnsandboxed,
    Device,
    GuardPython,
    Json,
    RecordOption,
    Workloads,
    guard_python,
    problem_folder,
)
from kernelarc_mcp.cli.stages import shown_stages
from kernelarc_mcp.host.campaign import open_campaign
from kernelarc_mcp.host.guard_client import GuardClient, GuardError
from kernelarc_mcp.scores.bounds import Bounds, bounds_of, read_bounds
from kernelarc_mcp.scores.campaign import campaign_times
from kernelarc_mcp.scores.counts import keep_counts
from kernelarc_mcp.scores.formula import Span, uniform_ratio
from kernelarc_mcp.scores.report import ScoreReport, score_report
from kernelarc_mcp.scores.roofline import with_rulers
from kernelarc_mcp.scores.seen import SeenRoofs, rulers_apart
from kernelarc_mcp.scores.times import Times, from_comparisons

SECONDS = 1800.0


def score(
    folder: Annotated[
        Path | None,
        typer.Argument(
            metavar="[DIR]", help="Score a campaign's record, or a submission.", show_default=False
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
            "--solution",
            metavar="PATH",
            help="Measure this solution beside the reference; without it bounds alone are shown.",
            show_default=False,
        ),
    ] = None,
    record: RecordOption = None,
    submission: Annotated[
        str, typer.Option("--submission", metavar="TICKET", help="Of the campaign, not its record.")
    ] = "",
    bounds: Annotated[
        Path | None,
        typer.Option(
            "--bounds",
            metavar="FILE",
            help="Published bounds and baselines, instead of the definition's own.",
            show_default=False,
        ),
    ] = None,
    target: Annotated[
        float,
        typer.Option(min=0.0, max=1.0, help="Say which uniform T_k/T_b has this score; 0: do not."),
    ] = 0.0,
    pairs: Annotated[int, typer.Option(min=2, max=256, help="Pairs of a comparison.")] = 4,
    device: Device = "cpu",
    workloads: Workloads = "workload.jsonl",
    guard: GuardPython = "",
    allow_unsandboxed: AllowUnsandboxed = False,
    as_json: Json = False,
) -> None:
    """Print SOL scores, bounds with their source, and speedups over the reference and the record.

    Published bounds come from the definition's `kernelarc.bounds` or from --bounds; our own are
    counted, and measured or taken from the device's data sheet.
    """
    if (folder is None) == (not problem):
        raise UserError("score: give --problem, or the directory of a campaign")
    if folder is not None and (solution or record):
        raise UserError("score: --solution and --record go with --problem")
    if submission and folder is None:
        raise UserError("score: --submission goes with the directory of a campaign")
    if record is not None and solution is None:
        raise UserError("score: --record goes with --solution")
    python = guard_python(guard)
    if folder is not None:
        report = _campaign(folder, submission, bounds, python)
    else:
        read = read_problem(problem_folder(problem), workloads)
        chosen = _bounds(read, bounds)
        counted, times = _measured(read, solution, record, device, pairs, python)
        threads = read.definition.kernelarc.threads
        roofs, said = SeenRoofs(roof_cache()).best(counted.roofs, threads)
        report = score_report(read, times, chosen, counted, roofs, device, said)
    if as_json:
        print_json(report)
        return
    _show(report)
    if target:
        out.print(_uniform(report, target))


def _bounds(problem: Problem, path: Path | None) -> Bounds:
    return bounds_of(problem) if path is None else read_bounds(path)


def _campaign(folder: Path, submission: str, bounds: Path | None, python: str) -> ScoreReport:
    campaign = open_campaign(folder)
    try:
        times = campaign_times(campaign, submission)
        device, problem = campaign.settings.device, campaign.problem
        chosen = _bounds(problem, bounds)
        with campaign.journal.reading() as state:
            calibration = state.calibration
    finally:
        campaign.close()
    counted = _ask(python, [_count(problem, device)])[0]
    assert isinstance(counted, Counted)
    keep_counts(folder, problem, counted.work)
    rulers = None if calibration is None else calibration.rulers
    at = "" if calibration is None else calibration.at
    threads = problem.definition.kernelarc.threads
    seen, _ = SeenRoofs(roof_cache()).best(counted.roofs, threads)
    roofs = with_rulers(seen, rulers, at, threads)
    return score_report(problem, times, chosen, counted, roofs, device, rulers_apart(seen, roofs))


def _measured(
    problem: Problem,
    solution: Path | None,
    record: Path | None,
    device: str,
    pairs: int,
    python: str,
) -> tuple[Counted, Times | None]:
    """Ask the guard for the counts and, with a solution, for comparisons of it."""
    definition = problem.definition
    against: list[tuple[str, Solution]] = []
    asked: list[Count | Compare] = [_count(problem, device)]
    if solution is not None:
        for option, path in (("--solution", solution), ("--record", record)):
            if path is not None and not path.exists():
                raise UserError(f"{option}: {path}: no such file or folder")
        candidate = read_solution(solution, definition)
        against.append(("reference", reference_solution(definition)))
        if record is not None:
            against.append(("record", read_solution(record, definition)))
        asked += [
            Compare(
                id=f"against-{name}",
                device=device,
                cache_dir=str(build_cache()),
                problem=problem,
                record=other,
                candidate=candidate,
                pairs=pairs,
            )
            for name, other in against
        ]
    counted, *results = _ask(python, asked)
    assert isinstance(counted, Counted)
    if solution is None:
        return counted, None
    compared = {
        name: result
        for (name, _), result in zip(against, results, strict=True)
        if isinstance(result, Result)
    }
    said = f"medians of {pairs} pairs, each arm beside the other"
    return counted, from_comparisons(solution.name, str(record or ""), said, **compared)


def _count(problem: Problem, device: str) -> Count:
    return Count(id="count", device=device, cache_dir=str(build_cache()), problem=problem)


def _ask(python: str, requests: list[Count | Compare]) -> list[Counted | Result]:
    with shown_stages() as tell:
        try:
            return anyio.run(_answers, python, requests, tell)
        except GuardError as error:
            raise UserError(
                f"could not score: {error} (guard: {python}, log: {guard_log()})"
            ) from None


async def _answers(
    python: str, requests: list[Count | Compare], tell: Callable[[Progress], None]
) -> list[Counted | Result]:
    found: list[Counted | Result] = []
    async with GuardClient(python, guard_log()) as guard:
        for request in requests:
            if isinstance(request, Compare):
                found.append(await guard.judge(request, deadline=SECONDS, on_progress=tell))
                continue
            answer = await guard.inquire(request, deadline=SECONDS, on_progress=tell)
            if not isinstance(answer, Counted):
                raise GuardError("did not count")
            found.append(answer)
    return found


def _uniform(report: ScoreReport, target: float) -> str:
    spans = [
        Span(row.bound.milliseconds, row.baseline.milliseconds)
        for row in report.workloads
        if row.bound is not None and row.baseline is not None
    ]
    if len(spans) < len(report.workloads):
        raise UserError("--target: every workload needs a bound and a baseline")
    try:
        ratio = uniform_ratio(target, spans)
    except ValueError as error:
        raise UserError(f"--target: {error}") from None
    return f"score {target:g} is T_k/T_b = {ratio:.4f} on every workload ({1 / ratio:.3f}x)"


def _show(report: ScoreReport) -> None:
    whole = "none" if report.score is None else f"{report.score:.4f}"
    out.print(f"{report.problem} on {report.device}: score {whole}", markup=False)
    if report.solution:
        over = [
            f"{ratio:.3f}x the {name}"
            for name, ratio in (
                ("reference", report.over_reference),
                (f"record ({report.record})", report.over_record),
            )
            if ratio is not None
        ]
        said = f": {', '.join(over)}" if over else ""
        out.print(f"{report.solution}{said}; {report.times}", markup=False)
    table = Table(
        "workload",
        "T_k us",
        "T_b us",
        "T_SOL us",
        "score",
        "own bound us",
        "reached",
        "by",
        "x ref",
    )
    for row in report.workloads:
        own = row.roofline
        table.add_row(
            axes_in_words(row.axes, row.uuid),
            _number(row.solution_us),
            _number(None if row.baseline is None else row.baseline.milliseconds * 1e3),
            _number(None if row.bound is None else row.bound.milliseconds * 1e3),
            "" if row.score is None else f"{row.score:.4f}",
            _number(None if own is None else own.milliseconds * 1e3),
            "" if row.of_roofline is None else f"{row.of_roofline:.1%}",
            "" if own is None else own.limited_by,
            _number(row.over_reference),
        )
    out.print(table)
    for line in _sources(report):
        out.print(line, markup=False)
    for row in report.workloads:
        for flag in [*row.flags, *(row.bound.flags if row.bound else [])]:
            out.print(f"audit: {axes_in_words(row.axes, row.uuid)}: {flag}", markup=False)
    for warning in report.warnings:
        out.print(f"warning: {warning}", markup=False)


def _sources(report: ScoreReport) -> list[str]:
    """Return where bounds, baselines and counts come from, each source once."""
    lines: dict[str, None] = {}
    for row in report.workloads:
        for bound in (row.bound, row.roofline):
            if bound is not None:
                when = f", {bound.date}" if bound.date else ""
                said = f"{bound.kind} bound of {bound.device}: {bound.source}{when}"
                lines[said] = None
        if row.baseline is not None:
            lines[f"baseline: {row.baseline.source}"] = None
        if row.counted:
            lines[f"operations: {row.counted}"] = None
    return list(lines)


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.4g}"
