"""The guard's wire format: one JSON request per line in; progress lines and one result per request out.

The server imports this module; it is light (pydantic only).
"""

from typing import Annotated, Final, Literal, Self

from pydantic import Field, TypeAdapter, model_validator

from kernelarc_guard.decide import Calibration, Decision, Parameters
from kernelarc_guard.device_state import DeviceState
from kernelarc_guard.model import Described, Model
from kernelarc_guard.problem import Problem
from kernelarc_guard.ratios import Anchored
from kernelarc_guard.reasons import Stage, Verdict, check_outcome
from kernelarc_guard.solution import Solution

DEVICE_HELD = "device held"
"""Message of the progress that says the wait for the device is over."""


_DAY: Final = 86_400.0


class Schedule(Model):
    """How much is measured. One block is `calls` calls of each arm on each workload."""

    calls: int = Field(default=5, ge=1, le=1000)
    """Timed calls of each arm per workload and block; the block's statistic is their median."""
    anchor_calls: int = Field(default=2, ge=1, le=1000)
    """Calls of the anchor per workload and block of a confirmation, beside as many of the arms'."""
    warmup_calls: int = Field(default=2, ge=0, le=1000)
    """Checked but untimed calls of each arm per workload when a pair starts."""
    start_seconds: float = Field(default=60.0, gt=0, le=_DAY)
    """Deadline for loading a solution in a fresh runner (import, not compilation)."""
    call_seconds: float = Field(default=20.0, gt=0, le=_DAY)
    """Deadline of one call."""
    build_seconds: float = Field(default=120.0, gt=0, le=_DAY)
    """Deadline of one compilation."""
    calibration_pairs: int = Field(default=8, ge=2, le=1000)
    """Pairs of the short calibration that a screen without one runs."""
    memory_bytes: int = Field(default=8 << 30, gt=0, le=1 << 50)
    """Address-space limit of a CPU runner or a builder."""
    evict_bytes: int | None = Field(default=None, ge=0, le=4 << 30)
    """How much the guard reads through before each timed call so that caches are cold; 0: warm.

    None: one and a half times the machine's largest cache."""


class BaseRequest(Model):
    """What every request says."""

    id: str = Field(min_length=1, max_length=100)
    device: str = "cpu"
    cache_dir: str = Field(min_length=1)
    """Directory for build caches; the guard creates it."""
    schedule: Schedule = Schedule()


class Calibrate(BaseRequest):
    """Measure a solution against itself: what the noise of this problem on this device is."""

    op: Literal["calibrate"] = "calibrate"
    problem: Problem
    record: Solution
    pairs: int = Field(default=8, ge=2, le=1000)
    """In each nursery."""
    nurseries: int = Field(default=1, ge=1, le=100)
    """Three or more reveal a bias that all pairs of one nursery share."""
    parameters: Parameters = Parameters()


class Screen(BaseRequest):
    """Run the gate and the screen on a candidate."""

    op: Literal["screen"] = "screen"
    problem: Problem
    record: Solution
    candidate: Solution
    parameters: Parameters = Parameters()
    calibration: Calibration | None = None
    """Without one the guard runs a short one when it is first needed, and returns it."""
    stake: float = Field(default=1.0 / 16 * 0.01, gt=0, lt=1)
    """What a confirmation would risk now: it fixes the goal the screen aims at."""
    known_binaries: dict[str, str] = {}
    """Digest of a binary judged before -> its submission."""
    correctness_only: bool = False
    """Stop after correctness (the result has no verdict and is promising when all is right)."""


class Confirm(BaseRequest):
    """Confirm a promising candidate on new pairs from a new nursery."""

    op: Literal["confirm"] = "confirm"
    problem: Problem
    record: Solution
    candidate: Solution
    anchor: Solution | None = None
    """The campaign's baseline, measured along; None: the record is the baseline."""
    parameters: Parameters = Parameters()
    calibration: Calibration
    stake: float = Field(gt=0, lt=1)
    """The part of the error budget reserved for this confirmation, already journalled."""


class Compare(BaseRequest):
    """Measure pairs of two trusted solutions in a nursery of their own, and decide nothing.

    For canaries, and for measuring a record again. The result has a verdict only where the
    candidate failed.
    """

    op: Literal["compare"] = "compare"
    problem: Problem
    record: Solution
    candidate: Solution
    pairs: int = Field(default=14, ge=2, le=256)
    blocks: int = Field(default=1, ge=1, le=64)
    """Of each pair."""
    planted: float = Field(default=0.0, ge=0, le=100)
    """The candidate's runner makes calls this much (percent, over all workloads) longer, or more
    where the device cannot plant so little: see the result."""
    checked: bool = False
    """Run smoke and correctness on the candidate first, as a screen does: nobody did that on such a device."""


Request = Annotated[Calibrate | Screen | Confirm | Compare, Field(discriminator="op")]
REQUEST: TypeAdapter[Request] = TypeAdapter(Request)


class StageReport(Described):
    """What one stage did."""

    state: Literal["passed", "failed", "not evaluated"]
    seconds: float = Field(default=0.0, ge=0)


class BuildMessage(Described):
    """One structured compiler message."""

    file: str
    line: int
    severity: Literal["error", "warning", "info"]
    """`info`: what a kernel uses of the device, and what was compiled ahead."""
    message: str


class WorkloadReport(Described):
    """One workload of one submission."""

    uuid: str
    axes: dict[str, int]
    state: Literal["passed", "failed", "not evaluated"]
    reason: str | None = None
    detail: str = ""
    max_absolute_error: float | None = None
    max_relative_error: float | None = None
    matched_ratio: float | None = None
    worst_inputs: str | None = None
    """Which inputs had the largest absolute error; `own`: as the workload describes them."""
    record_us: float | None = None
    """Median over all timed calls of the record's arm, in microseconds, guard's clock."""
    candidate_us: float | None = None


class BlockTimes(Model):
    """One side-by-side block: nanoseconds per call, `[workload][call]`, for each arm."""

    record: list[list[int]]
    candidate: list[list[int]]
    anchor: list[list[int | None]] = []
    """The anchor beside the same calls, null where it was not called; empty: it was not measured."""


class PairTimes(Model):
    """One fresh pair of runners."""

    record_first: bool
    """The guard's coin: was the record's runner the first one forked?"""
    blocks: list[BlockTimes]


class Lease(Model):
    """When the device was held, on the machine's monotonic clock (nanoseconds)."""

    device: str
    """As the request named it."""
    from_ns: int
    to_ns: int
    machine: str = ""
    """Boot of the machine whose clock it is; empty: that of the row it is in."""
    unit: str = ""
    """What was locked: two names of one device have one lock. Empty: what `device` says."""


class Result(Model):
    """The guard's whole answer to one request."""

    event: Literal["result"] = "result"
    id: str
    op: Literal["calibrate", "screen", "confirm", "compare"]
    verdict: Verdict | None = None
    """None where a screen is promising (confirm it), for a calibration and for a comparison."""
    reason: str | None = None
    stage: Stage
    detail: str = ""
    """One sentence or more for the agent: what was seen, where, and what is allowed."""
    stages: dict[Stage, StageReport] = {}
    workloads: list[WorkloadReport] = []
    build: list[BuildMessage] = []
    binary: str | None = None
    """Digest of the built binary; for interpreted solutions the digest of the sources."""
    pairs: list[PairTimes] = []
    decision: Decision | None = None
    anchored: Anchored | None = None
    """Of a confirmation: both arms over the anchor, in the pairs that had it."""
    apart: list[PairTimes] = []
    """Of a would-be KEEP: rounds with the arms in separate lifetimes."""
    planted: float | None = Field(default=None, gt=0)
    """Of a comparison: the delay (percent) that was planted, at least what was asked for."""
    calibration: Calibration | None = None
    """The calibration used, returned so that it can be stored."""
    observations: list[str] = []
    device_states: list[DeviceState] = []
    """Of a GPU: its state right after every timed block, in their order."""
    protection: dict[str, str] = {}
    """Which protection was active, for instance `{"sandbox": "none"}`."""
    lease: Lease | None = None
    seconds: float = Field(default=0.0, ge=0)

    @model_validator(mode="after")
    def _possible(self) -> Self:
        if self.verdict is None:
            return self
        check_outcome(self.verdict, self.reason or "", self.stage)
        if self.verdict in ("KEEP", "ACCEPT") and (
            self.decision is None or any(w.state != "passed" for w in self.workloads)
        ):
            raise ValueError(f"{self.verdict} without a decision over workloads that all passed")
        if self.verdict == "KEEP" and self.op != "confirm":
            raise ValueError("only a confirmation can KEEP")
        return self


class Progress(Model):
    """A sign of life; `done` strictly increases within one request."""

    event: Literal["progress"] = "progress"
    id: str
    stage: Stage
    done: float
    of: float
    message: str


class Refusal(Model):
    """The guard could not judge: the request, the problem, the record or the machine is at fault."""

    event: Literal["refusal"] = "refusal"
    id: str
    error: str
    code: Literal[
        "", "record_failed", "anchor_failed", "builder_lost", "guard_died", "device_lost"
    ] = ""
    """Whose fault it is, where a program has to know; the last two are said for a guard, of a fleet."""
    lease: Lease | None = None
    """When the device was held for an inquiry, all the same; None where it was not."""


Answer = Annotated[Progress | Result | Refusal, Field(discriminator="event")]
ANSWER: TypeAdapter[Answer] = TypeAdapter(Answer)
