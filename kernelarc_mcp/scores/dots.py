"""The roofline of a campaign: its device's roofs, and one dot for each KEEP."""

from collections.abc import Sequence

from kernelarc_guard.axes import evaluate
from kernelarc_guard.inquiries import WorkCount
from kernelarc_guard.model import Model
from kernelarc_guard.problem import Problem
from kernelarc_guard.roofs import MEASURED, Roof, Roofs
from kernelarc_guard.rule import Calibration
from kernelarc_mcp.host.campaign import Campaign
from kernelarc_mcp.host.state import CampaignState, RecordStep
from kernelarc_mcp.scores.bounds import Bounds, BoundsError, bounds_of
from kernelarc_mcp.scores.counts import counts_of
from kernelarc_mcp.scores.roofline import matrix_roof, roofline, with_rulers


class Dot(Model):
    """A record: one call on every workload, together."""

    submission: str
    agent: str
    """Empty: the seed."""
    at_attempt: int
    withdrawn: bool
    microseconds: float
    bytes_per_second: float
    operations_per_second: float | None
    """Matrix operations; null where they are not known."""
    of_bound: float | None
    """Share (of 1) of the bound that it reached; above 1 data came from a cache, or the bound is wrong."""


class RooflineView(Model):
    """What the chart draws; null roofs and an empty list of dots where nothing is known."""

    bytes: int
    """That one call on every workload has to move."""
    operations: int | None
    """Matrix operations of these calls; null: not known."""
    memory: float | None
    """Bytes a second that the device copies."""
    matrix: dict[str, float]
    """Dtype -> operations a second, of those that bound this problem."""
    bound_us: float | None
    """Least time of these calls."""
    least_us: dict[str, float] = {}
    """Workload uuid -> least time of one call on it; of those where it is known."""
    limited_by: str
    """`memory` or a dtype, of the most of them."""
    source: str
    dots: list[Dot]
    """The seed and every record after it, in their order."""
    notes: list[str]
    words: str
    """The chart in one sentence."""


def roofline_view(campaign: Campaign, state: CampaignState) -> RooflineView:
    """Return the roofline at `state`, by the rulers of the campaign's last calibration."""
    problem = campaign.problem
    work = counts_of(campaign.folder, problem)
    notes: list[str] = []
    try:
        bounds = bounds_of(problem)
        operations, moved = _operations(problem, work, bounds), _moved(problem, work, bounds)
        roofs = _roofs(state.calibration, problem.definition.kernelarc.threads)
        limits = [_limit(problem, one, roofs, bounds) for one in work]
    except BoundsError as error:
        return _nothing(work, f"{error}")
    if operations is None:
        notes.append(
            "Matrix operations are not counted: only the memory's roof is drawn."
            " `kernelarc-mcp score DIR` counts them."
        )
    if roofs is None:
        notes.append("Not calibrated yet: no roof is known.")
    known = [limit for limit in limits if limit is not None]
    bound = sum(us for us, _ in known) if len(known) == len(work) else None
    held = [by for _, by in known]
    dots = [_dot(step, work, moved, operations, bound) for step in state.records]
    if any(dot is not None and (dot.of_bound or 0) > 1 for dot in dots):
        notes.append(
            "Above its roof a kernel's data came from caches that the ruler, which copies more than"
            " fits, does not use."
        )
    return RooflineView(
        bytes=moved,
        operations=operations,
        memory=None if roofs is None or roofs.memory is None else roofs.memory.per_second,
        matrix=_matrix(problem, work, bounds, roofs),
        bound_us=bound,
        least_us={
            one.uuid: limit[0] for one, limit in zip(work, limits, strict=True) if limit is not None
        },
        limited_by=max(sorted(set(held)), key=held.count) if held else "",
        source="" if roofs is None or roofs.memory is None else _said(roofs.memory),
        dots=[dot for dot in dots if dot is not None],
        notes=notes,
        words=_words([dot for dot in dots if dot is not None], bound, held),
    )


def _words(dots: Sequence[Dot], bound: float | None, held: Sequence[str]) -> str:
    standing = [dot for dot in dots if not dot.withdrawn]
    if not standing:
        return "No record was timed on every workload yet."
    last = standing[-1]
    said = (
        f"One call on every workload takes {last.submission} {last.microseconds:.4g} us together,"
        f" {last.bytes_per_second / 1e9:.4g} GB/s of what it has to move"
    )
    if bound is None or last.of_bound is None:
        return f"{said}; what the device needs at least is not known."
    by = "/".join(sorted(set(held)))
    return f"{said}: {100 * last.of_bound:.3g} % of the bound, {bound:.4g} us by {by}."


def _nothing(work: Sequence[WorkCount], why: str) -> RooflineView:
    return RooflineView(
        bytes=sum(one.read_bytes + one.written_bytes for one in work),
        operations=None,
        memory=None,
        matrix={},
        bound_us=None,
        limited_by="",
        source="",
        dots=[],
        notes=[why],
        words="No roofline can be drawn.",
    )


def _roofs(calibration: Calibration | None, threads: int) -> Roofs | None:
    if calibration is None or calibration.rulers is None:
        return None
    rulers, at = calibration.rulers, calibration.at
    matrix = {
        dtype: Roof(per_second=rate, source=f"{MEASURED}rulers of the calibration", date=at)
        for dtype, rate in rulers.matrix_flops_per_second.items()
    }
    bare = Roofs(device=calibration.device, memory=None, writes=None, matrix=matrix)
    return with_rulers(bare, rulers, at, threads)


def _said(roof: Roof) -> str:
    return f"{roof.source}, {roof.date[:10]}" if roof.date else roof.source


def _limit(
    problem: Problem, work: WorkCount, roofs: Roofs | None, bounds: Bounds
) -> tuple[float, str] | None:
    if roofs is None:
        return None
    found = roofline(work, roofs, bounds, _axes(problem, work), _inputs(problem))
    return None if found is None else (1e3 * found.milliseconds, found.limited_by)


def _operations(problem: Problem, work: Sequence[WorkCount], bounds: Bounds) -> int | None:
    """Return the matrix operations of all workloads; None where those of one are not known."""
    total = 0
    for one in work:
        if bounds.operations:
            total += sum(_value(text, problem, one) for text in bounds.operations.values())
        elif one.operations is None:
            return None
        else:
            total += sum(one.operations.values())
    return total


def _moved(problem: Problem, work: Sequence[WorkCount], bounds: Bounds) -> int:
    if bounds.bytes:
        return sum(_value(bounds.bytes, problem, one) for one in work)
    return sum(one.read_bytes + one.written_bytes for one in work)


def _value(text: str, problem: Problem, work: WorkCount) -> int:
    try:
        return evaluate(text, _axes(problem, work))
    except ValueError as error:
        raise BoundsError(f"kernelarc.bounds: {error}") from None


def _axes(problem: Problem, work: WorkCount) -> dict[str, int]:
    workload = next(one for one in problem.workloads if one.uuid == work.uuid)
    return problem.definition.resolve(workload.axes)


def _inputs(problem: Problem) -> list[str]:
    return [spec.dtype for spec in problem.definition.inputs.values()]


def _matrix(
    problem: Problem, work: Sequence[WorkCount], bounds: Bounds, roofs: Roofs | None
) -> dict[str, float]:
    """Return the rates of the dtypes that this problem multiplies."""
    if roofs is None:
        return {}
    counted = [*bounds.operations, *(dtype for one in work for dtype in one.operations or {})]
    widened = [dtype for dtype in _inputs(problem) if dtype in roofs.matrix] if counted else []
    found = {dtype: matrix_roof(roofs, dtype) for dtype in [*counted, *widened]}
    return {dtype: roof.per_second for dtype, roof in found.items() if roof is not None}


def _dot(
    step: RecordStep,
    work: Sequence[WorkCount],
    moved: int,
    operations: int | None,
    bound: float | None,
) -> Dot | None:
    """Return a record's dot; None where a workload of it was not timed."""
    times = [step.microseconds.get(one.uuid) for one in work]
    known = [time for time in times if time]
    if len(known) < len(work):
        return None
    total = sum(known)
    return Dot(
        submission=step.ticket,
        agent=step.agent or "",
        at_attempt=step.number,
        withdrawn=bool(step.withdrawn),
        microseconds=total,
        bytes_per_second=1e6 * moved / total,
        operations_per_second=None if not operations else 1e6 * operations / total,
        of_bound=None if bound is None else bound / total,
    )
