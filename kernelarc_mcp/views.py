"""What the tools answer: one model per tool. The same JSON goes into text and structured content."""

from typing import Literal

from kernelarc_guard.model import Described
from kernelarc_guard.protocol import BuildMessage, StageReport, WorkloadReport
from kernelarc_guard.reasons import Stage, Verdict
from kernelarc_mcp.lens_views import LensCreditView, LinkView, MoveView, RegionView

Directive = Literal["CONTINUE", "RESTORE", "DRAFT", "STOP"]
State = Literal["queued", "judging", "done"]


class Answer(Described):
    """Every answer has the one thing to do now."""

    next_step: str
    """What to do now, in one or two sentences."""


class AgentState(Described):
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
    money_left: str | None
    """US dollars you may still spend, with what is not counted; null: no limit."""


class TensorView(Described):
    name: str
    shape: list[str] | None
    """Axis names or digits; null for a Python scalar."""
    dtype: str
    description: str


class ToleranceView(Described):
    """The numbers of one workload; `CorrectnessView` says how they are used."""

    max_atol: float
    max_rtol: float
    required_matched_ratio: float
    """Share of the elements that must be within the tolerance."""
    max_error_cap: float | None
    """Largest absolute error of any element; null: none."""


class CorrectnessView(Described):
    tolerance_mode: Literal["strict", "sol", "flashinfer"]
    means: str
    """What must hold for every output, in a few sentences."""


class LimitsView(Described):
    """What a solution's processes are held to."""

    call_seconds: float
    """Of a call; the first one of each workload in a process has `load_seconds`, for JIT and tuning."""
    load_seconds: float
    """To load it in a fresh process: imports and top-level code."""
    build_seconds: float
    """To compile it, before it is loaded."""
    memory: str
    """Of which kind, and what bounds it."""
    threads: int
    """CPU threads that may compute at once."""


class WorkloadView(Described):
    uuid: str
    axes: dict[str, int]
    """Lengths that differ between workloads or follow from them."""
    record_us: float | None
    """Median of the record on this workload, microseconds, in the comparison that made it the record.

    Null until something was measured."""
    reference_us: float | None
    """Median of the reference, run as a solution beside the seed; null until it was measured."""
    weight: float
    """In the mean over workloads; they sum to 1."""
    tolerance: ToleranceView | None
    """Null where all workloads have the brief's `tolerance`."""


class RatioView(Described):
    """How many times as fast as the seed, measured beside it in one comparison."""

    ratio: float
    lower: float
    """Two-sided 95 % interval over the pairs of that comparison that had the seed beside them."""
    upper: float
    pairs: int


class RecordView(Described):
    submission: str
    """`seed` until the first KEEP."""
    agent: str | None
    speedup: float
    """Over the seed, measured beside it in the confirming comparison; 1.0 for the seed itself."""
    over_seed: RatioView | None
    """`speedup` with its spread; null for the seed."""
    gain: float | None
    """Over the record before it; null for the seed."""
    lower: float | None
    """Lower bound of `gain`."""
    languages: list[str]
    at_attempt: int


class RulersView(Described):
    """What the device can do at best; a call that took less than that makes possible is not believed."""

    empty_window_us: float
    """Shortest window in which nothing was done, in microseconds."""
    write_gb_per_second: float
    """One thread writing what lies in its caches."""
    copy_gb_per_second: float
    """One thread copying what lies in no cache, read and written bytes together."""
    empty_kernel_us: float | None = None
    """Of a GPU: a queued window around the smallest kernel, which is taken off all others."""
    matrix_tflops: dict[str, float] = {}
    """Of a GPU, by dtype: a large product of random values, a multiply-add being two operations."""


class CalibrationView(Described):
    """What the noise here was measured to be; percent are 100 * ln(time ratio)."""

    at: str
    """When, ISO 8601."""
    pairs: int
    nurseries: int
    blocks_per_pair: int
    sd_percent: float
    """Upper bound of the standard deviation of one confirming pair."""
    spread_pairs: int | None
    """Pairs of the record with itself that it is from, after its KEEP or of the last A/A canary; null: the
    calibration's own."""
    mean_percent: float
    """Mean difference of identical arms."""
    shared_bias_percent: float | None
    """Bound of a bias that all pairs of one nursery share; null: not measured."""
    delta_percent: float
    """What a KEEP must exceed here."""
    resolution_percent: float | None
    """Smallest gain that a first confirmation can be expected to prove."""
    biased: bool
    """Identical arms differ by more than chance: the path needs repair."""
    rulers: RulersView | None
    """Measured with the calibration; null: it is of an older version."""
    toolchain: dict[str, str]
    """Versions of compilers, Python, packages and driver; empty: of an older version, or in a brief
    without the room: view_leaderboard has them."""
    note: str
    warnings: list[str]


class Brief(Answer):
    """Everything an agent must know before its first attempt."""

    campaign: str
    problem: str
    operator_class: str
    description: str
    device: str
    machine: str
    """The processor with its vector instructions and caches, or the GPU's name."""
    inputs: list[TensorView]
    outputs: list[TensorView]
    axes: dict[str, str]
    reference: str
    tolerance: ToleranceView | None
    """Of every workload; null where they differ: then each has its own."""
    workloads: list[WorkloadView]
    workloads_in_all: int
    next_workload: int | None
    """Where get_brief(first_workload=...) goes on; null: these were the last."""
    languages: list[str]
    interface: str
    """How `run` is called in each language and style, with a minimal example; compiler flags."""
    correctness: CorrectnessView
    limits: LimitsView
    record: RecordView
    calibration: CalibrationView | None
    """Null until the campaign's calibration is done."""
    state: AgentState
    workspace: str
    """A folder of this machine with your branch's files, those of your last KEEP or ACCEPT; empty over
    HTTP: view_snapshot shows them."""
    rules: list[str]
    reading: list[LinkView]
    """Resources for later: an index, and courses that fit this operator and device."""


class LensView(Answer):
    name: str
    title: str
    intent: str
    pays_when: list[str]
    trap_when: list[str]
    roofline: RegionView
    """Which limit the kernel must be near for it."""
    shapes: RegionView
    moves: list[MoveView]
    """A ladder, from cheap to deep; start at the first rung whose `when` you see."""
    patterns: list[str]
    notes: list[str]
    """What it means on this device's kind, by generation for GPUs."""
    templates: list[LinkView]
    """Short files that compile and show a pattern whole: read the resource."""
    eligible: list[str]
    """Lenses that may be used on this operator class."""


class ConclusionView(Described):
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
    """How often the same conclusion was written."""


class MemoryView(Answer):
    conclusions: list[ConclusionView]
    shown: int
    next_offset: int | None
    """Where read_memory(offset=...) goes on; null: these were the last."""
    stored: int
    retention: str


class ConclusionStored(Answer):
    id: int
    merged: bool
    """True where the same text was there already: its count went up."""


class NumbersView(Described):
    """What decided, and what could have been decided; percent are 100 * ln(time ratio)."""

    speedup: float
    """Over the record it was compared with."""
    lower: float | None
    """Lower bound of `speedup`; null in a screen, or where none was proven."""
    over_seed: RatioView | None
    """Null without a confirmation."""
    pairs: int
    """Of the part that decided."""
    blocks: int
    screen_pairs: int
    confirm_pairs: int
    stake: float
    """What the confirmation risked, or would have, of the error budget."""
    staked: bool
    wealth_left: float
    """Error budget that is left of the agent's share, now."""
    delta_percent: float
    """What a KEEP had to exceed."""
    band_percent: float
    """How close ACCEPT is."""
    goal_percent: float
    """The gain that was looked for."""
    resolution_percent: float
    """Smallest gain that could have been proven."""


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
    numbers: NumbersView | None
    """Null until it was timed."""
    stages: dict[str, StageReport]
    workloads: list[WorkloadReport]
    """Those that failed first."""
    next_workload: int | None = None
    """Where wait_submission(first_workload=...) goes on; null: these were the last."""
    build: list[BuildMessage]
    observations: list[str]
    left_out: dict[str, int] = {}
    """How many entries of `build` or `observations`, characters of `detail`, had no room here."""
    duplicate_of: str | None
    charged: bool
    """False where this request id was seen before: nothing was charged again."""
    protection: dict[str, str]
    state_after: AgentState
    """The caller's state now."""


class BoardRow(Described):
    rank: int
    submission: str
    agent: str | None
    verdict: Verdict | None
    speedup: float | None
    """Over the seed, measured beside it in a confirmation; null for a branch that has none."""
    over_seed: RatioView | None
    """`speedup` with its spread."""
    gain: float | None
    """Over the record it was compared with; of a branch that is no record at most 1."""
    lower: float | None
    """Lower bound of a record's `gain`."""
    withdrawn: str
    """Why it is no record any more, a reason code; else empty."""
    languages: list[str]
    lens: str | None
    summary: str
    at_attempt: int


class BaselineView(Described):
    name: str
    """`seed`, `reference`, ..."""
    speedup: float | None
    """Over the seed; null where it was not measured."""
    detail: str


class OtherModelRow(Described):
    """A record on a device of another model, compared with the seed there."""

    record: str
    device: str
    over_seed: RatioView | None
    """Null where it failed there, or could not be measured."""
    reason: str
    """How it failed there, a code; empty where it did not."""
    detail: str
    withdrawn: str
    """Why it is no record any more, a reason code; else empty."""


class OtherModelView(Described):
    """An extra board: the campaign's records on another model. Nothing is decided there."""

    model: str
    rows: list[OtherModelRow]
    """Newest first; on the leaderboard the record's and the fastest one's alone."""
    measured: int
    failed: int
    """Records that were wrong there or could not be compared."""
    owed: int
    """Records that still have to be measured there."""
    words: str


class UsageView(Described):
    """What an agent's client says its runs used, where somebody recorded it (`usage add`, the fleet)."""

    runs: int
    input_tokens: int | None
    """Of the runs that said it, cached ones included; null: none did."""
    output_tokens: int | None
    runs_with_tokens: int
    """Fewer than `runs`: the two sums are a part."""
    cost_usd: float | None
    """Of the runs that said it; null: not known of any."""
    runs_with_cost: int
    """Fewer than `runs`: the sum is a part."""


class AgentRow(Described):
    agent: str
    lens: str
    r: int
    drafts: int
    attempts_used: int
    attempts_left: int
    verdicts: dict[str, int]
    best: float | None
    """Best confirmed speedup over the seed by this agent."""
    usage: UsageView | None
    """Null where nobody recorded any."""


class CanariesView(Described):
    """Comparisons whose answer is known, since the last calibration; bounds are exact, 95 %."""

    same: int
    """The record with itself."""
    same_hits: int
    """Of these, how many showed a difference (p <= 0.05)."""
    same_bounds: tuple[float, float]
    """Of the probability of a hit; it should hold 0.05."""
    delayed: int
    """The record with itself under a planted delay, as large as the goal or larger."""
    delayed_seen: int
    delayed_bounds: tuple[float, float]
    """Of the probability of seeing it: the measured power."""
    p_values: list[float]
    """Of the last 20 A/A canaries, in their order."""


class Board(Answer):
    problem: str
    device: str
    quarantined: str
    """Why nothing is judged (`device_quarantined`); empty where the device is trusted."""
    calibration: CalibrationView | None
    """Null until the campaign's calibration is done."""
    canaries: CanariesView
    wealth: dict[str, float]
    """Error budget that is left of the agents shown; the pool's has the empty name."""
    goal_percent: float | None
    """Smallest gain that the next confirmation looks for; null before the calibration."""
    record: RecordView
    suspect: str
    """`record_drifted` or `record_failed` while the record is to be measured again."""
    rows: list[BoardRow]
    rows_in_all: int
    next_row: int | None
    """Where view_leaderboard(first_row=...) goes on; null: these were the last."""
    baselines: list[BaselineView]
    other_models: list[OtherModelView]
    """Where records are measured on other models, too; empty in most campaigns."""
    agents: list[AgentRow]
    """You first, then those with the best gain."""
    agents_in_all: int
    next_agent: int | None
    """Where view_leaderboard(first_agent=...) goes on; null: these were the last."""
    lenses: list[LensCreditView]
    """Every lens that was handed out, with what it brought."""
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
