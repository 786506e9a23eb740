"""What the tools answer: one model per tool. The same JSON goes into text and structured content."""

from typing import Literal

from kernelarc_guard.model import Model
from kernelarc_guard.protocol import BuildMessage, StageReport, WorkloadReport
from kernelarc_guard.reasons import Stage, Verdict

Directive = Literal["CONTINUE", "RESTORE", "DRAFT", "STOP"]
State = Literal["queued", "judging", "done"]


class Answer(Model):
    """Every answer ends with the one thing to do now."""

    next_step: str
    """What to do now, in one or two sentences."""


class AgentState(Model):
    """Where one agent stands; every number is a function of the ledger's rows."""

    agent: str
    lens: str
    directive: Directive
    r: int
    """ACCEPT and REVERT verdicts since the later of the last KEEP and the last draft."""
    r_draft: int
    drafts: int
    attempts_used: int
    attempts_left: int
    branch: str
    """Submission the agent explores from; `seed` before the first KEEP or ACCEPT."""
    branch_digest: str


class TensorView(Model):
    name: str
    shape: list[str] | None
    """Axis names or digits; null for a Python scalar."""
    dtype: str
    description: str


class WorkloadView(Model):
    uuid: str
    axes: dict[str, int]
    record_us: float | None
    """Median of the record on this workload, microseconds, in the comparison that made it the record."""


class RecordView(Model):
    submission: str
    """`seed` until the first KEEP."""
    agent: str | None
    speedup: float
    """Over the seed solution: product of confirmed gains; 1.0 for the seed itself."""
    lower: float | None
    """Lower bound of the confirming gain over the record before it."""
    languages: list[str]
    at_attempt: int


class Brief(Answer):
    """Everything an agent must know before its first attempt."""

    campaign: str
    problem: str
    operator_class: str
    description: str
    device: str
    inputs: list[TensorView]
    outputs: list[TensorView]
    axes: dict[str, str]
    reference: str
    workloads: list[WorkloadView]
    languages: list[str]
    interface: str
    """How `run` is called in each language and style, with a minimal example."""
    record: RecordView
    state: AgentState
    workspace: str
    rules: list[str]


class LensView(Answer):
    name: str
    title: str
    intent: str
    pays_when: list[str]
    trap_when: list[str]
    moves: list[str]
    patterns: list[str]
    eligible: list[str]
    """Lenses that may be used on this operator class."""


class ConclusionView(Model):
    id: int
    kind: Literal["win", "trap"]
    summary: str
    lesson: str
    agent: str
    lens: str
    evidence: str
    """Submission that proves it."""
    verdict: Verdict
    reason: str
    speedup: float | None
    device: str
    operator_class: str
    campaign: str
    at: str
    seen: int
    """How many agents wrote the same conclusion."""


class MemoryView(Answer):
    conclusions: list[ConclusionView]
    shown: int
    stored: int
    retention: str


class ConclusionStored(Answer):
    id: int
    merged: bool
    """True where the same text was there already: its count went up."""


class SubmissionView(Answer):
    """One submission, finished or not: always the same shape."""

    ticket: str
    state: State
    position: int | None
    """Place in the queue, 1 is next; null once it is being judged."""
    stage: Stage | None
    percent: int
    message: str
    verdict: Verdict | None
    reason: str | None
    detail: str
    speedup: float | None
    """Over the record it was compared with; from the confirmation where there was one."""
    lower: float | None
    """Lower bound of `speedup`, where one was proven."""
    stages: dict[str, StageReport]
    workloads: list[WorkloadReport]
    build: list[BuildMessage]
    observations: list[str]
    duplicate_of: str | None
    charged: bool
    """False where this request id was seen before: nothing was charged again."""
    protection: dict[str, str]
    state_after: AgentState
    """The caller's state now."""


class BoardRow(Model):
    rank: int
    submission: str
    agent: str | None
    verdict: Verdict | None
    speedup: float
    """Over the seed; confirmed gains only: a branch that is no record shows none over its record."""
    lower: float | None
    languages: list[str]
    lens: str | None
    summary: str
    at_attempt: int


class BaselineView(Model):
    name: str
    """`seed`, `reference`, ..."""
    speedup: float | None
    """Over the seed; null where it was not measured."""
    detail: str


class AgentRow(Model):
    agent: str
    lens: str
    r: int
    drafts: int
    attempts_used: int
    attempts_left: int
    verdicts: dict[str, int]
    best: float | None
    """Best confirmed speedup over the seed by this agent."""


class Board(Answer):
    problem: str
    device: str
    record: RecordView
    rows: list[BoardRow]
    baselines: list[BaselineView]
    agents: list[AgentRow]
    attempts_used: int
    attempts: int


class Snapshot(Answer):
    submission: str
    agent: str | None
    files: list[str]
    path: str
    offset: int
    text: str
    total_chars: int
    next_offset: int | None
    languages: list[str]
    entry_point: str
    destination_passing_style: bool
