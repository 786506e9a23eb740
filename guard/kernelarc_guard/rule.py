"""The values of the KEEP rule: its parameters, a device's calibration and a decision.

Effects are log ratios in percent, 100 * ln(record time / candidate time): positive is faster.
"""

from typing import Annotated, Literal, Self

from pydantic import AfterValidator, Field, model_validator

from kernelarc_guard.model import Model

DIGITS = 9
"""Significant digits that are kept of every published number, so that its JSON is stable."""


def rounded(value: float) -> float:
    """Round to the digits that are published."""
    return float(f"{value:.{DIGITS}g}")


Number = Annotated[float, AfterValidator(rounded)]


class Parameters(Model):
    """Everything the rule may be tuned with; stored with each verdict."""

    target: float = Field(default=1.0, gt=0)
    """The gain (percent) a campaign wants to find; the goal is this or what can be resolved."""
    delta: float = Field(default=0.3, ge=0)
    """A KEEP proves more than this many percent: what a bias shared by all pairs may amount to."""
    band: float = Field(default=2.0, gt=0)
    """Not worse than this many percent is close to the record."""
    wealth: float = Field(default=0.01, gt=0, lt=1)
    """The campaign's error budget: the probability of even one false KEEP stays below it."""
    fraction: float = Field(default=1.0 / 16, gt=0, le=1)
    """The part of the wealth that is left which one confirmation stakes."""
    n_max: int = Field(default=32, ge=8, le=256)
    """Most pairs of a confirmation."""
    shares: tuple[float, float, float] = (0.1, 0.3, 0.6)
    """How the stake is split among the fast, the middle and the last look."""
    fast_pairs: int = Field(default=7, ge=2, le=64)
    """Pairs before the fast look."""
    look_gap: int = Field(default=3, ge=0)
    """With the middle look closer than this to the last one, there is no middle look."""
    miss: float = Field(default=0.05, gt=0, lt=0.5)
    """Chance of missing a gain as large as the goal that the plan is sized for."""
    efficiency: float = Field(default=0.955, gt=0, le=1)
    """Pairs that a t-test needs for each pair of the signed-rank test, normal noise."""
    stop_z: float = Field(default=2.5, gt=0)
    """A confirmation stops when its mean stays this many standard errors short of the goal."""
    screen_pairs: int = Field(default=12, ge=2, le=64)
    """Most pairs of a screen."""
    dropped_pairs: int = Field(default=8, ge=2)
    """From this pair on, a screen that can no longer promote does not go on looking."""
    promote_log_odds: float = Field(default=2.98, gt=0)
    """ln(0.98 / 0.05): evidence for the goal, against no gain, that promotes."""
    drop_log_odds: float = Field(default=3.86, gt=0)
    """ln(0.95 / 0.02): evidence for no gain, against the goal, that rules promotion out."""
    hopeless_z: float = Field(default=3.0, gt=0)
    """This many standard errors below the band is slower, from the first pair on."""
    close_z: float = Field(default=2.3, gt=0)
    """This many standard errors inside the band is close to the record, outside it is slower."""
    workload_level: float = Field(default=0.05, gt=0, lt=0.5)
    """Level, shared among the workloads, at which one of them is shown to have regressed."""
    blocks_screen: int = Field(default=4, ge=1)
    """Most blocks of a screen's pair; a calibration may choose fewer."""
    blocks_confirm: int = Field(default=8, ge=1)
    """Most blocks of a confirmation's pair; a calibration may choose fewer."""
    sd_confidence: float = Field(default=0.8, gt=0.5, lt=1)
    """How sure a calibration is that the true spread is not above `sd_confirm`."""
    least_sd: float = Field(default=0.05, gt=0)
    """Floor (percent) of a calibrated spread: no clock is so good that it may be zero."""

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if any(share <= 0 for share in self.shares) or abs(sum(self.shares) - 1) > 1e-9:
            raise ValueError("shares: three positive numbers that add up to 1")
        if self.fast_pairs >= self.n_max:
            raise ValueError("fast_pairs: fewer than n_max")
        if self.dropped_pairs > self.screen_pairs:
            raise ValueError("dropped_pairs: at most screen_pairs")
        return self


class Rulers(Model):
    """What a device can do at best, as the guard saw it: the best of many tries."""

    empty_window_ns: int = Field(gt=0)
    """Shortest window in which a runner was woken, did nothing and stopped."""
    write_bytes_per_second: Number = Field(gt=0)
    """One thread writing memory that lies in its caches."""
    copy_bytes_per_second: Number = Field(gt=0)
    """One thread copying memory that lies in none; bytes read and bytes written both count."""
    empty_kernel_ns: int | None = None
    """Of a GPU: the shortest queued window around the smallest kernel, which is taken off the rest."""
    matrix_flops_per_second: dict[str, Number] = {}
    """Of a GPU: dtype -> operations of the best large matrix product, a multiply-add being two."""


class Calibration(Model):
    """The noise of one problem on one device, from pairs that compared a solution with itself."""

    device: str
    problem: str
    """Digest of the problem."""
    at: str
    """When it was measured, ISO 8601."""
    pairs: int = Field(ge=2)
    blocks_screen: int = Field(ge=1)
    """Blocks per pair of a screen."""
    blocks_confirm: int = Field(ge=1)
    """Blocks per pair of a confirmation."""
    sd_screen: Number = Field(gt=0)
    """Standard deviation (percent) of a pair of a screen."""
    sd_confirm: Number = Field(gt=0)
    """Upper bound of the standard deviation (percent) of a pair of a confirmation."""
    delta: Number = Field(ge=0)
    """What a KEEP must prove at least (percent) on this device; the larger of it and ours counts."""
    mean: Number
    """Mean of the pairs (percent); zero is expected."""
    values: list[Number]
    """The pair values themselves, as a confirmation would have them, nursery by nursery."""
    nurseries: list[int] = Field(default_factory=list)
    """How many of the values each nursery gave, in their order; empty in older calibrations."""
    shared_bias: Number | None = None
    """Upper bound of the standard deviation (percent) of a bias that all pairs of one nursery
    share; None where too few nurseries were seen."""
    biased: bool = False
    """Identical arms differ by more than chance: the path needs repair."""
    resolution: Number | None = None
    """Smallest gain (percent) that a first confirmation can be expected to prove here."""
    pair_seconds: Number | None = None
    """What starting a pair cost; with the next, why there are so many blocks in a pair."""
    block_seconds: Number | None = None
    """What one block over all workloads cost."""
    rulers: Rulers | None = None
    """Measured together with the pairs; nothing is judged on a device without them."""
    toolchain: dict[str, str] = {}
    """Name -> version of what solutions are compiled and run with; empty in older calibrations."""
    spread_pairs: int | None = None
    """Confirming pairs of the last KEEP that both spreads are from; None: the values above."""
    note: str = ""
    """What this calibration cannot know, and what looked odd."""


class Decision(Model):
    """What the rule says about a series of pairs: a function of the pairs and the parameters only."""

    outcome: Literal["promising", "KEEP", "ACCEPT", "REVERT"]
    """`promising`: a screen that asks for a confirmation."""
    reason: str | None
    """The reason code; None where the outcome is `promising`."""
    speedup: Number = Field(gt=0)
    """Record time over candidate time: exp(mean_percent / 100)."""
    lower: Number | None
    """Lower confidence bound of the speedup; None in a screen or where no bound exists."""
    mean_percent: Number
    """Mean of the pairs, 100 * ln(record / candidate)."""
    lower_percent: Number | None
    pairs: int = Field(ge=1)
    blocks: int = Field(ge=1)
    """Blocks those pairs were planned to have, all together."""
    look: int | None
    """Which look (1, 2, ...) of a confirmation decided; None in a screen."""
    stake: Number = Field(gt=0, lt=1)
    """What this confirmation risked, or would have, of the error budget."""
    goal: Number
    """The gain (percent) that was looked for: the target, or the resolution where that is larger."""
    delta: Number
    """The gain (percent) that a KEEP had to exceed."""
    band: Number
    resolution: Number
    """Smallest true gain (percent) that the largest plan finds with probability 1 - miss."""
    detail: str
    """One sentence with the numbers that decided."""
