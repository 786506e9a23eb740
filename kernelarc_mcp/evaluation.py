"""Judging one solution without a campaign: the same gate, screen and confirmation, one document."""

from collections.abc import Callable
from datetime import UTC, datetime

from pydantic import Field

from kernelarc_guard.decide import Calibration, Parameters
from kernelarc_guard.devices import default_parameters
from kernelarc_guard.judgement import merged_stages, merged_workloads
from kernelarc_guard.model import Model
from kernelarc_guard.problem import Problem
from kernelarc_guard.protocol import (
    BuildMessage,
    Progress,
    Result,
    Schedule,
    StageReport,
    WorkloadReport,
)
from kernelarc_guard.reasons import REASONS, STAGES, Stage, Verdict
from kernelarc_guard.solution import CompileOptions, Solution
from kernelarc_mcp.calibrations import CalibrationCache
from kernelarc_mcp.host.envelope import file_ref, open_envelope
from kernelarc_mcp.host.events import Proposal
from kernelarc_mcp.host.guard_client import GuardClient
from kernelarc_mcp.noise import warnings
from kernelarc_mcp.requests import Requests

STAKE = Parameters().fraction * Parameters().wealth
"""What a confirmation risks: one stake of a campaign that has all its wealth."""


class Evaluation(Model):
    """The verdict on one solution; scripts read this, so fields are only ever added."""

    verdict: Verdict
    reason: str
    stage: Stage
    detail: str
    problem: str
    problem_digest: str
    solution: str
    solution_digest: str | None
    record: str
    record_digest: str
    device: str
    speedup: float | None
    """Over the record; from the confirmation where there was one, else of the screen."""
    lower: float | None
    """Lower bound of `speedup`, where one was proven."""
    resolution: float | None
    """Smallest gain (percent) that this device could have proven here."""
    stages: dict[Stage, StageReport]
    workloads: list[WorkloadReport]
    build: list[BuildMessage]
    observations: list[str]
    protection: dict[str, str]
    calibration: Calibration | None
    calibration_cached: bool
    pairs_screen: int
    pairs_confirm: int
    seconds: float
    warnings: list[str]


class Case(Model):
    """What is judged, against what and where."""

    problem: Problem
    record: Solution
    device: str
    cache_dir: str
    """Directory of the guard's build cache."""
    schedule: Schedule = Schedule()
    parameters: Parameters = Field(
        default_factory=lambda given: default_parameters(given["device"])
    )
    stake: float = STAKE
    deadline: float = 1800.0
    """Seconds for one request to the guard."""

    @property
    def requests(self) -> Requests:
        """Return what makes the guard's requests."""
        return Requests(self.problem, self.device, self.cache_dir, self.parameters, self.schedule)


async def evaluate(
    guard: GuardClient,
    case: Case,
    candidate: Solution,
    calibrations: CalibrationCache,
    tell: Callable[[Progress], None],
) -> Evaluation:
    """Screen a solution and, where that is promising, confirm it.

    Raises GuardError where the guard cannot judge.
    """
    cached = calibrations.load(case.device, case.problem, case.record)
    screen = await guard.judge(
        case.requests.screen(
            "screen", case.record, candidate, calibration=cached, stake=case.stake
        ),
        deadline=case.deadline,
        on_progress=tell,
    )
    calibration = cached or screen.calibration
    if cached is None and calibration is not None:
        calibrations.store(case.problem, case.record, calibration)
    confirm: Result | None = None
    if screen.verdict is None and calibration is not None:
        confirm = await guard.judge(
            case.requests.confirm(
                "confirm", case.record, candidate, calibration=calibration, stake=case.stake
            ),
            deadline=case.deadline,
            on_progress=tell,
        )
    return _document(case, candidate, screen, confirm, calibration, cached is not None)


class Checked(Model):
    """Whether one solution is right; scripts read this, so fields are only ever added."""

    right: bool
    """It passed the gate and was right on every workload; nothing was timed."""
    verdict: Verdict | None
    """Null where it is right: how fast it is decides."""
    reason: str | None
    stage: Stage
    detail: str
    problem: str
    solution: str
    device: str
    workloads: list[WorkloadReport]
    build: list[BuildMessage]
    observations: list[str]
    protection: dict[str, str]
    seconds: float
    warnings: list[str]


async def check(
    guard: GuardClient, case: Case, candidate: Solution, tell: Callable[[Progress], None]
) -> Checked:
    """Run the gate and the correctness stage on a solution, and time nothing.

    Raises GuardError where the guard cannot judge.
    """
    request = case.requests.screen(
        "check", case.record, candidate, calibration=None, stake=case.stake
    )
    request = request.model_copy(update={"correctness_only": True})
    result = await guard.judge(request, deadline=case.deadline, on_progress=tell)
    return Checked(
        right=result.verdict is None,
        verdict=result.verdict,
        reason=result.reason,
        stage=result.stage,
        detail=result.detail,
        problem=case.problem.definition.name,
        solution=candidate.name,
        device=case.device,
        workloads=result.workloads,
        build=result.build,
        observations=result.observations,
        protection=result.protection,
        seconds=result.seconds,
        warnings=case.problem.warnings,
    )


def not_right(refusal: Evaluation) -> Checked:
    """Return what a check says of a solution that did not pass the envelope."""
    shared = set(Checked.model_fields) & set(Evaluation.model_fields)
    return Checked(right=False, **{name: getattr(refusal, name) for name in shared})


def envelope(case: Case, solution: Solution) -> Evaluation | None:
    """Return the REJECT of a solution that a campaign's envelope would refuse, else None."""
    options = solution.spec.compile_options or CompileOptions()
    proposal = Proposal(
        language=solution.spec.languages[0],
        entry_point=solution.spec.entry_point,
        destination_passing=solution.spec.destination_passing_style,
        binding=solution.spec.binding or "",
        cflags=options.cflags,
        cuda_cflags=options.cuda_cflags,
        ld_flags=options.ld_flags,
        files=[file_ref(source.path, source.content) for source in solution.sources],
    )
    contents = [source.content for source in solution.sources]
    opened = open_envelope(
        proposal, contents, case.device, solution.definition, solution.name, solution.author
    )
    if opened.refusal is None:
        return None
    return refused(case, solution.name, opened.refusal.reason, opened.refusal.detail)


def refused(case: Case, name: str, reason: str, detail: str) -> Evaluation:
    """Return the REJECT of a solution that did not pass the envelope."""
    nothing: StageReport = StageReport(state="not evaluated")
    return Evaluation(
        verdict="REJECT",
        reason=reason,
        stage="envelope",
        detail=detail or REASONS[reason].says,
        problem=case.problem.definition.name,
        problem_digest=case.problem.digest,
        solution=name,
        solution_digest=None,
        record=case.record.name,
        record_digest=case.record.digest,
        device=case.device,
        speedup=None,
        lower=None,
        resolution=None,
        stages={
            stage: StageReport(state="failed") if stage == "envelope" else nothing
            for stage in STAGES
        },
        workloads=[
            WorkloadReport(uuid=workload.uuid, axes=workload.axes, state="not evaluated")
            for workload in case.problem.workloads
        ],
        build=[],
        observations=[],
        protection={},
        calibration=None,
        calibration_cached=False,
        pairs_screen=0,
        pairs_confirm=0,
        seconds=0.0,
        warnings=case.problem.warnings,
    )


def _document(
    case: Case,
    candidate: Solution,
    screen: Result,
    confirm: Result | None,
    calibration: Calibration | None,
    cached: bool,
) -> Evaluation:
    last = confirm or screen
    if last.verdict is None or last.reason is None:
        raise ValueError(f"the guard's {last.op} ended without a verdict")
    decision = last.decision
    results = [screen] if confirm is None else [screen, confirm]
    return Evaluation(
        verdict=last.verdict,
        reason=last.reason,
        stage=last.stage,
        detail=last.detail,
        problem=case.problem.definition.name,
        problem_digest=case.problem.digest,
        solution=candidate.name,
        solution_digest=candidate.digest,
        record=case.record.name,
        record_digest=case.record.digest,
        device=case.device,
        speedup=None if decision is None else decision.speedup,
        lower=None if decision is None else decision.lower,
        resolution=None if decision is None else decision.resolution,
        stages={**_passed_by_reading(), **merged_stages(results)},
        workloads=merged_workloads(results),
        build=last.build or screen.build,
        observations=list(dict.fromkeys(seen for one in results for seen in one.observations)),
        protection=last.protection,
        calibration=calibration,
        calibration_cached=cached,
        pairs_screen=len(screen.pairs),
        pairs_confirm=len(confirm.pairs) if confirm else 0,
        seconds=sum(one.seconds for one in results),
        warnings=[*case.problem.warnings, *_noise_warnings(calibration)],
    )


def _noise_warnings(calibration: Calibration | None) -> list[str]:
    if calibration is None:
        return []
    found = warnings(calibration, "", datetime.now(UTC))
    return [f"calibration: {line}" for line in found]


def _passed_by_reading() -> dict[Stage, StageReport]:
    # Reading the solution was the envelope; without a campaign nothing can be a duplicate.
    passed: StageReport = StageReport(state="passed")
    return {"envelope": passed, "duplicate": StageReport(state="not evaluated")}
