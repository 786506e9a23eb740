"""A problem's scores: each with its bound, the bound's source and date, and what speaks against it."""

import math
from collections.abc import Sequence

from kernelarc_guard.inquiries import Counted, WorkCount
from kernelarc_guard.model import Model
from kernelarc_guard.problem import Problem, Workload
from kernelarc_guard.roofs import Roofs
from kernelarc_mcp.scores.bounds import Bounds
from kernelarc_mcp.scores.formula import Span, problem_score, sol_score
from kernelarc_mcp.scores.roofline import audit, roofline
from kernelarc_mcp.scores.times import Times, WorkloadTimes


class BoundReport(Model):
    """One bound of one workload."""

    kind: str
    """`published` or `roofline`."""
    milliseconds: float
    source: str
    date: str
    device: str
    limited_by: str = ""
    """Of a roofline: `memory`, or the dtype of the matrix operations."""
    flags: list[str] = []
    """What speaks against it."""


class BaselineTime(Model):
    """What a score of 0.5 is."""

    milliseconds: float
    source: str


class WorkloadScore(Model):
    """One workload."""

    uuid: str
    axes: dict[str, int]
    solution_us: float | None
    reference_us: float | None
    record_us: float | None
    over_reference: float | None
    """How many times as fast as the reference."""
    over_record: float | None
    bound: BoundReport | None
    """What the score is of; null: nothing is known."""
    baseline: BaselineTime | None
    score: float | None
    """Null where the solution was not measured or bound or baseline are not known."""
    roofline: BoundReport | None
    """Our own bound, also where another one is published."""
    of_roofline: float | None
    """Share (of 1) of our own bound that the solution reached."""
    counted: str
    """How its operations were counted."""
    flags: list[str] = []
    """What speaks against the score."""


class ScoreReport(Model):
    """A problem; scripts read this, so fields are only ever added."""

    problem: str
    problem_digest: str
    device: str
    """As it is called here, with its vendor's name."""
    solution: str
    record: str
    times: str
    """How they were measured."""
    score: float | None
    """Mean over the workloads, one that did not pass counting 0; null where one has none."""
    comparable: bool
    """True where bounds and times are of the same device."""
    over_reference: float | None
    """Geometric mean over the workloads."""
    over_record: float | None
    workloads: list[WorkloadScore]
    warnings: list[str]


def score_report(
    problem: Problem,
    times: Times | None,
    published: Bounds,
    counted: Counted | None,
    roofs: Roofs | None,
    device: str,
    said: Sequence[str] = (),
) -> ScoreReport:
    """Score a problem; without `times` it is a list of bounds, without `counted` of published ones.

    What is `said` of the roofs goes with the warnings.
    """
    counts = {one.uuid: one for one in counted.work} if counted else {}
    measured = {one.uuid: one for one in times.workloads} if times else {}
    named = roofs.device if roofs else device
    rows = [
        _row(problem, workload, measured.get(workload.uuid), published, counts, roofs, named)
        for workload in problem.workloads
    ]
    whole = None
    if times is not None and all(_settled(row) for row in rows):
        whole = problem_score([row.score for row in rows])
    return ScoreReport(
        problem=problem.definition.name,
        problem_digest=problem.digest,
        device=f"{device} ({named})" if named != device else device,
        solution=times.solution if times else "",
        record=times.record if times else "",
        times=times.source if times else "nothing was measured",
        score=whole,
        comparable=all(row.bound is None or row.bound.device == named for row in rows),
        over_reference=_geometric([row.over_reference for row in rows]),
        over_record=_geometric([row.over_record for row in rows]),
        workloads=rows,
        warnings=[*_warnings(rows, published, named), *_unused(problem, published), *said],
    )


def _row(
    problem: Problem,
    workload: Workload,
    times: WorkloadTimes | None,
    published: Bounds,
    counts: dict[str, WorkCount],
    roofs: Roofs | None,
    device: str,
) -> WorkloadScore:
    axes = problem.definition.resolve(workload.axes)
    work = counts.get(workload.uuid)
    own = None
    if work is not None and roofs is not None:
        dtypes = [spec.dtype for spec in problem.definition.inputs.values()]
        if problem.definition.kernelarc.oracle == "declared":
            # It quantises on purpose, to what its inputs do not say: the fastest rate there is.
            dtypes = list(roofs.matrix)
        found = roofline(work, roofs, published, axes, dtypes)
        if found is not None:
            under = found.milliseconds < found.floor_ms
            own = BoundReport(
                kind="roofline",
                milliseconds=found.milliseconds,
                source=found.source,
                date=found.date,
                device=device,
                limited_by=found.limited_by,
                flags=[f"below the output-write floor of {found.floor_ms:.4g} ms"] if under else [],
            )
    bound, baseline = own, None
    known = published.of(workload, axes)
    if known is not None:
        said = audit(known.t_sol_ms, published.device, work.written_bytes) if work else ""
        bound = BoundReport(
            kind="published",
            milliseconds=known.t_sol_ms,
            source=published.source,
            date=published.date,
            device=published.device,
            flags=[said] if said else [],
        )
        if known.t_b_ms is not None:
            said = f"{published.source}, {published.date}"
            baseline = BaselineTime(milliseconds=known.t_b_ms, source=said)
    reference = times.reference_us if times else None
    if baseline is None and reference is not None:
        baseline = BaselineTime(milliseconds=reference / 1e3, source="the reference, measured")
    solution = times.solution_us if times else None
    score = None
    if bound is not None and baseline is not None and solution is not None:
        score = sol_score(solution / 1e3, Span(bound.milliseconds, baseline.milliseconds))
    elif times is not None and solution is None:
        score = 0.0
    reached = own.milliseconds * 1e3 / solution if own is not None and solution else None
    return WorkloadScore(
        uuid=workload.uuid,
        axes=axes,
        solution_us=solution,
        reference_us=reference,
        record_us=times.record_us if times else None,
        over_reference=_ratio(reference, solution),
        over_record=_ratio(times.record_us if times else None, solution),
        bound=bound,
        baseline=baseline,
        score=score if score is None or math.isfinite(score) else None,
        roofline=own,
        of_roofline=reached,
        counted=work.how if work else "",
        flags=_flags(score, solution, bound, baseline),
    )


def _flags(
    score: float | None,
    solution: float | None,
    bound: BoundReport | None,
    baseline: BaselineTime | None,
) -> list[str]:
    flags = []
    if score is not None and solution is not None and bound is not None and baseline is not None:
        if solution / 1e3 < bound.milliseconds:
            flags.append("faster than the bound: the bound, the time or the answer is wrong")
        if baseline.milliseconds <= bound.milliseconds:
            flags.append("the baseline is not above the bound: the score is 0 or 1")
        if not math.isfinite(score) or score < 0:
            flags.append("the published fraction means nothing for so short a time")
    return flags


def _settled(row: WorkloadScore) -> bool:
    return row.score is not None


def _warnings(rows: Sequence[WorkloadScore], published: Bounds, device: str) -> list[str]:
    found = []
    if published.workloads and published.device != device:
        found.append(
            f"The published bounds are of {published.device}, the times of {device}: these scores"
            " are not comparable with published ones."
        )
    missing = [row.uuid for row in rows if row.bound is None]
    if missing:
        found.append(f"No bound is known for {len(missing)} of {len(rows)} workloads.")
    suspect = [row.uuid for row in rows if row.bound is not None and row.bound.flags]
    if suspect:
        found.append(f"{len(suspect)} of {len(rows)} bounds do not stand an audit.")
    return found


def _unused(problem: Problem, published: Bounds) -> list[str]:
    """Say which published bounds are of no workload here."""
    used = [
        published.of(workload, problem.definition.resolve(workload.axes))
        for workload in problem.workloads
    ]
    left = [one.uuid or str(one.axes) for one in published.workloads if one not in used]
    if not left:
        return []
    return [
        f"{len(left)} of {len(published.workloads)} published bounds are of no workload here, such as"
        f" {left[0]}."
    ]


def _ratio(slow: float | None, fast: float | None) -> float | None:
    return slow / fast if slow and fast else None


def _geometric(ratios: Sequence[float | None]) -> float | None:
    known = [ratio for ratio in ratios if ratio is not None]
    if not known or len(known) < len(ratios):
        return None
    return math.exp(math.fsum(map(math.log, known)) / len(known))
