"""What is known so far about one request: stages, workloads, pairs; becomes its result."""

import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from statistics import median
from typing import Literal

from kernelarc_guard.decide import Calibration, Decision
from kernelarc_guard.device_state import DeviceState, noteworthy
from kernelarc_guard.faults import SolutionFault, plain
from kernelarc_guard.lease import DeviceLease
from kernelarc_guard.problem import Problem
from kernelarc_guard.protocol import (
    BuildMessage,
    PairTimes,
    Progress,
    Result,
    StageReport,
    WorkloadReport,
)
from kernelarc_guard.ratios import Anchored, AnchoredBlock
from kernelarc_guard.reasons import GATE, REASONS, STAGES, Stage, Verdict
from kernelarc_guard.tolerance import Comparison

Tell = Callable[[Progress], None]
Op = Literal["calibrate", "screen", "confirm", "compare"]
_MOST_OF_A_KIND = 20
_MOST_KINDS = 100
_GUARDED: tuple[Stage, ...] = ("policy", "build", "smoke", "correctness", "timing")


class Outcome(Exception):
    """The request is decided: a stage failed."""

    def __init__(self, stage: Stage, fault: SolutionFault) -> None:
        super().__init__(fault.detail)
        self.stage: Stage = stage
        self.fault = fault


class Report:
    """Collects what a request's stages found, and sends progress."""

    def __init__(self, id: str, op: Op, tell: Tell) -> None:
        """Start with nothing evaluated."""
        self._id = id
        self._op: Op = op
        self._send = tell
        self._done = 0.0
        self._stages: dict[Stage, StageReport] = {}
        self._workloads: dict[int, WorkloadReport] = {}
        self._problem: Problem | None = None
        self._pairs: list[PairTimes] = []
        self._observations: dict[str, dict[str, None]] = {}
        """By kind, the word before the colon."""
        self._unnoted: dict[str, int] = {}
        self._apart: list[PairTimes] = []
        self._decision: Decision | None = None
        self._verdict: Verdict | None = None
        self._reason: str | None = None
        self._detail = ""
        self.now: Stage = "policy"
        self.messages: list[BuildMessage] = []
        self.binary: str | None = None
        self.calibration: Calibration | None = None
        self.anchored: Anchored | None = None
        self.planted: float | None = None
        self.lease: DeviceLease | None = None
        self.look: Callable[[], DeviceState | None] = lambda: None
        """Asked for the device's state after every block."""
        self._states: list[DeviceState] = []

    def watch(self, problem: Problem) -> None:
        """Name the problem whose workloads are reported."""
        self._problem = problem

    @contextmanager
    def stage(self, stage: Stage) -> Iterator[None]:
        """Time a stage; it failed where an Outcome leaves it."""
        self.now = stage
        self.tell(stage, f"{stage} started")
        begin = time.monotonic()
        try:
            yield
        except Outcome as outcome:
            if outcome.stage in _GUARDED:
                self._mark(outcome.stage, begin, "failed")
            else:
                self._mark(stage, begin, "passed")  # a duplicate binary: the build itself went well
            raise
        self._mark(stage, begin, "passed")

    def _mark(self, stage: Stage, begin: float, state: Literal["passed", "failed"]) -> None:
        seconds = round(time.monotonic() - begin, 6)
        self._stages[stage] = StageReport(state=state, seconds=seconds)

    def tell(self, stage: Stage, message: str) -> None:
        """Send progress; `done` moves a little each time so that it strictly increases."""
        self._done += 0.001
        self._emit(stage, message)

    def tick(self, stage: Stage, message: str) -> None:
        """Send progress of one whole step."""
        self._done += 1
        self._emit(stage, message)

    def tick_block(self) -> None:
        """Send progress after a block, and note the device's state."""
        self.tick("timing", f"pair {len(self._pairs) + 1}: a block is measured")
        state = self.look()
        if state is not None:
            pair = len(self._pairs) + len(self._apart) + 1
            self._states.append(state.model_copy(update={"pair": pair}))

    def _emit(self, stage: Stage, message: str) -> None:
        # How many pairs a decision needs is not known before: `of` only stays ahead of `done`.
        total = max(20.0, self._done * 1.25)
        self._send(
            Progress(id=self._id, stage=stage, done=round(self._done, 3), of=total, message=message)
        )

    def observe(self, seen: str) -> None:
        """Note what was seen and did not decide, once.

        A bound for each kind keeps a flood of one from hiding another; what is beyond is counted.
        """
        seen = plain(seen)
        kind = seen.partition(":")[0]
        if kind not in self._observations and len(self._observations) >= _MOST_KINDS:
            kind = "other"
        known = self._observations.setdefault(kind, {})
        if seen in known:
            return
        if len(known) < _MOST_OF_A_KIND:
            known[seen] = None
        else:
            self._unnoted[kind] = self._unnoted.get(kind, 0) + 1

    def failure(self, stage: Stage, fault: SolutionFault) -> Outcome:
        """Return the Outcome to raise for a failed stage."""
        return Outcome(stage, fault)

    def workload_passed(self, index: int, worst: Comparison | None) -> None:
        """Report a workload whose outputs were right."""
        self._workloads[index] = self._workload(index, worst, "passed", None, "")

    def workload_failed(self, index: int, fault: SolutionFault, worst: Comparison | None) -> None:
        """Report a workload that failed."""
        self._workloads[index] = self._workload(index, worst, "failed", fault.reason, fault.detail)

    def _workload(
        self,
        index: int,
        worst: Comparison | None,
        state: Literal["passed", "failed"],
        reason: str | None,
        detail: str,
    ) -> WorkloadReport:
        assert self._problem is not None
        workload = self._problem.workloads[index]
        return WorkloadReport(
            uuid=workload.uuid,
            axes=dict(workload.axes),
            state=state,
            reason=reason,
            detail=detail,
            max_absolute_error=_finite(worst.max_absolute_error) if worst else None,
            max_relative_error=_finite(worst.max_relative_error) if worst else None,
            matched_ratio=worst.matched_ratio if worst else None,
            worst_inputs=worst.inputs if worst else None,
        )

    def add_pair(self, pair: PairTimes) -> None:
        """Keep a measured pair."""
        self._pairs.append(pair)

    def add_round(self, pair: PairTimes) -> None:
        """Keep a round with the arms in separate lifetimes."""
        self._apart.append(pair)

    def decide(self, decision: Decision) -> None:
        """Take over what the rule said about the pairs."""
        self._decision = decision
        self._detail = decision.detail
        self._reason = decision.reason
        if decision.outcome != "promising":
            self._verdict = decision.outcome

    def withhold_keep(self) -> None:
        """Turn a KEEP into ACCEPT `fixed_inputs`: no input of the problem can be redrawn."""
        if self._verdict == "KEEP":
            self._verdict, self._reason = "ACCEPT", "fixed_inputs"
            self._detail = REASONS["fixed_inputs"].says

    def triples(self) -> list[list[AnchoredBlock]]:
        """Return the pairs' blocks with the anchor's times."""
        return [[(b.record, b.candidate, b.anchor) for b in pair.blocks] for pair in self._pairs]

    @property
    def keeps(self) -> bool:
        """Say whether the verdict so far is KEEP."""
        return self._verdict == "KEEP"

    def deny_keep(self, why: str) -> None:
        """Turn a KEEP into ACCEPT `gain_not_confirmed`: measured alone, the arms say otherwise."""
        self._verdict, self._reason, self._detail = "ACCEPT", "gain_not_confirmed", why
        self.observe(why)

    def settle(self, outcome: Outcome) -> None:
        """Turn a failed stage into the verdict."""
        fault = outcome.fault
        rejects = outcome.stage in GATE and "REJECT" in REASONS[fault.reason].verdicts
        self._verdict = "REJECT" if rejects else "REVERT"
        self._reason, self._detail = fault.reason, fault.detail
        self.now = outcome.stage
        if outcome.stage == "timing" and fault.workload is not None:
            self.workload_failed(fault.workload, fault, None)

    def result(self, protection: dict[str, str], seconds: float) -> Result:
        """Return the whole answer."""
        for seen in noteworthy(self._states):
            self.observe(seen)
        return Result(
            id=self._id,
            op=self._op,
            verdict=self._verdict,
            reason=self._reason,
            stage=self.now,
            detail=self._detail,
            stages={
                stage: self._stages.get(stage, StageReport(state="not evaluated"))
                for stage in STAGES
                if stage in _GUARDED
            },
            workloads=self._all_workloads(),
            build=self.messages[:20],
            binary=self.binary,
            pairs=self._pairs,
            decision=self._decision,
            anchored=self.anchored,
            apart=self._apart,
            planted=self.planted,
            calibration=self.calibration,
            observations=self._noted(),
            device_states=self._states,
            protection=protection,
            lease=self.lease.describe() if self.lease is not None else None,
            seconds=round(seconds, 6),
        )

    def _noted(self) -> list[str]:
        listed = [seen for known in self._observations.values() for seen in known]
        return listed + [f"{kind}: {more} more" for kind, more in self._unnoted.items()]

    def _all_workloads(self) -> list[WorkloadReport]:
        if self._problem is None:
            return []
        reports = []
        for index, workload in enumerate(self._problem.workloads):
            known = self._workloads.get(index) or WorkloadReport(
                uuid=workload.uuid, axes=dict(workload.axes), state="not evaluated"
            )
            if self._pairs and known.state != "failed":
                record = [t for p in self._pairs for b in p.blocks for t in b.record[index]]
                candidate = [t for p in self._pairs for b in p.blocks for t in b.candidate[index]]
                known = known.model_copy(
                    update={
                        # Every timed output was checked, so measured means passed.
                        "state": "passed",
                        "record_us": round(median(record) / 1e3, 3),
                        "candidate_us": round(median(candidate) / 1e3, 3),
                    }
                )
            reports.append(known)
        return reports


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
