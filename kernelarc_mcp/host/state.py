"""Where a campaign stands: values that are a function of the ledger's rows, and questions to them."""

from collections import Counter
from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal

from kernelarc_guard.decide import Calibration
from kernelarc_guard.protocol import Result
from kernelarc_guard.ratios import Ratio
from kernelarc_guard.reasons import Stage, Verdict
from kernelarc_mcp.host.attempts import Attempts
from kernelarc_mcp.host.events import (
    GENESIS,
    SEED,
    CalibrationAsked,
    Created,
    Proposal,
    Suspected,
)
from kernelarc_mcp.host.money import Purse, reached, spent_by
from kernelarc_mcp.host.profile_step import ProfileStep
from kernelarc_mcp.host.queueing import first_in_line, whole_line
from kernelarc_mcp.host.usage import UsageTotals

Progress = Literal["queued", "judging", "done"]


@dataclass
class AgentStanding:
    """One agent's counters."""

    name: str
    share: int | None
    """Attempts of its own; None where it draws from the pool."""
    lens: str = ""
    """Empty until it registers."""
    used: int = 0
    r: int = 0
    drafts: int = 0
    episode: int = 0
    """Drafting episodes so far."""
    drafting: bool = False
    restoring: bool = False
    branch: str = SEED
    verdicts: Counter[Verdict] = field(default_factory=Counter)
    served: int = 0
    """Row of its last claim: the least recently served agent is next."""
    best: float | None = None
    """Best confirmed speedup over the seed."""
    profile_ns: int = 0
    """How long the device was held for its profiles."""
    purse: Purse = field(default_factory=Purse)
    """What its client says it used."""

    @property
    def usage(self) -> UsageTotals:
        """Return what the runs of its client used."""
        return self.purse.usage


@dataclass
class Attempt:
    """One submission."""

    ticket: str
    agent: str
    number: int
    at: str
    request_id: str
    proposal: Proposal
    lens: str
    episode: int
    key: str | None
    found_dsl: str
    solution_digest: str | None
    parent: str = SEED
    """The agent's branch when it was submitted: what its author stood on."""
    state: Progress = "queued"
    against: str = ""
    machine: str = ""
    planned_stake: float = 0.0
    calibration: Calibration | None = None
    """The campaign's when it was claimed: what it is judged with, whatever comes in between."""
    reserved: float | None = None
    """Stake that is out while a confirmation runs."""
    deaths: int = 0
    """Judgements cut off by what may be the candidate's doing: see `replay.counts_as_death`."""
    claims: int = 0
    claimed_seq: int = 0
    """Row of its last claim."""
    doubted: str = ""
    """Record that it beat first and that had drifted: it was compared again for that, once."""
    screen: Result | None = None
    """Without its pairs."""
    confirmation: Result | None = None
    verdict: Verdict | None = None
    reason: str | None = None
    stage: Stage | None = None
    detail: str = ""
    duplicate_of: str | None = None
    speedup: float | None = None
    lower: float | None = None
    settled_at: str = ""
    settled_seq: int = 0
    """Row of its verdict."""
    last_seq: int = 0


@dataclass
class LensTotals:
    """What the attempts made under one lens came to."""

    attempts: int = 0
    verdicts: Counter[Verdict] = field(default_factory=Counter)
    keeps: int = 0
    """Records that stand."""
    gain_percent: float = 0.0
    """Of these, 100 * ln each."""
    device_ns: int = 0
    """How long the device was held for the judgements that led to verdicts."""


@dataclass(frozen=True)
class RecordStep:
    """One record of the campaign."""

    ticket: str
    agent: str | None
    speedup: float
    """Over the seed, measured beside it in the confirming comparison."""
    lower: float | None
    """Lower bound of `gain`."""
    number: int
    microseconds: dict[str, float]
    """Workload uuid -> median of the record in the comparison that made it one."""
    gain: float | None = None
    """Confirmed gain over the record before it; None for the seed."""
    over_seed: Ratio | None = None
    """`speedup` with its spread; None for the seed."""
    withdrawn: str = ""
    """Reason code; empty while it may stand."""
    withdrawn_detail: str = ""
    """What was seen of it; empty where that is not known."""


@dataclass(frozen=True)
class CanaryStep:
    """One canary."""

    sort: Literal["same", "delayed"]
    planted: float
    p_value: float | None
    """None where nothing was measured."""


@dataclass(frozen=True)
class ExtraStep:
    """One record on a device of another model than the campaign's."""

    record: str
    model: str
    device: str
    """As the fleet names it; empty where none took it."""
    over_seed: Ratio | None
    """None where it failed there or could not be measured."""
    reason: str
    """Code of how it failed there; empty where it did not."""
    detail: str


@dataclass(frozen=True)
class BaselineStep:
    """One known solution that was judged as a line to beat."""

    name: str
    speedup: float | None
    detail: str
    microseconds: dict[str, float] = field(default_factory=dict)
    """Workload uuid -> its median beside the seed, where it was timed."""


@dataclass
class CampaignState:
    """Everything that follows from the rows up to `seq`."""

    seq: int = 0
    head: str = GENESIS
    created: Created | None = None
    created_at: str = ""
    agents: dict[str, AgentStanding] = field(default_factory=dict)
    attempts: Attempts = field(default_factory=Attempts)
    unsettled: dict[str, Attempt] = field(default_factory=dict)
    """Those of them that have no verdict yet, in their order."""
    by_key: dict[str, str] = field(default_factory=dict)
    """Key of a source -> the first submission with it that was or will be judged."""
    binaries: dict[str, str] = field(default_factory=dict)
    """Digest of a binary -> the first settled submission with it."""
    records: list[RecordStep] = field(default_factory=list)
    wealth: dict[str, float] = field(default_factory=dict)
    """Share -> error budget that is left; the pool's share is the empty name."""
    record_places: dict[str, int] = field(default_factory=dict)
    """Submission -> its place in `records`."""
    withdrawn: list[int] = field(default_factory=list)
    """Places of the records that were withdrawn, in their order."""
    ranking: list[tuple[float, int]] = field(default_factory=list)
    """Records that were not withdrawn, the fastest first: minus its speedup, place in `records`."""
    lens_use: Counter[str] = field(default_factory=Counter)
    lens_totals: dict[str, LensTotals] = field(default_factory=dict)
    """Lens -> what was submitted under it, and what came of it."""
    calibration: Calibration | None = None
    baselines: list[BaselineStep] = field(default_factory=list)
    baselined: set[str] = field(default_factory=set)
    device_ns: int = 0
    """How long the device was held for submissions, profiles included."""
    profiles: dict[tuple[str, str], ProfileStep] = field(default_factory=dict)
    """Submission and workload -> its profile, in the order they were asked for."""
    extra_attempts: int = 0
    judged: int = 0
    """Submissions that were claimed and have a verdict."""
    calibration_machine: str = ""
    """What the calibration was measured on, in words."""
    calibration_asked: CalibrationAsked | None = None
    suspect: Suspected | None = None
    """The record has to be measured again before anything else is judged."""
    drift_due: str = ""
    """Record that the next row must suspect."""
    canaries: list[CanaryStep] = field(default_factory=list)
    canaries_before: int = 0
    """How many of them were before the last calibration."""
    quarantined: str = ""
    """Why nothing is judged; empty where the device is trusted."""
    quarantine_due: str = ""
    """Why the next row must quarantine the device."""
    spread_due: str = ""
    """Record that is compared with itself before anything else is judged: it is a new one."""
    extra_owed: dict[tuple[str, str], None] = field(default_factory=dict)
    """Records and models of the extra boards on which they are still to be measured, oldest first."""
    extra: list[ExtraStep] = field(default_factory=list)
    """What was measured for the extra boards, in its order."""
    draft_due: str = ""
    """Agent that the next row must send drafting."""
    concluded: dict[tuple[str, str, str, str], int] = field(default_factory=dict)
    """Agent, evidence, kind and digest of the words -> the row of the conclusion."""

    @property
    def campaign(self) -> Created:
        """Return what the campaign was created with."""
        if self.created is None:
            raise ValueError("the ledger has no first row")
        return self.created

    @property
    def record(self) -> RecordStep:
        """Return the record that stands: the last one that was not withdrawn."""
        return next(step for step in reversed(self.records) if not step.withdrawn)

    def step_of(self, ticket: str) -> RecordStep | None:
        """Return what a submission was as a record, withdrawn or not; None where it was none."""
        place = self.record_places.get(ticket)
        return None if place is None else self.records[place]

    @property
    def used(self) -> int:
        """Return the attempts charged to all agents."""
        return len(self.attempts)

    @property
    def total(self) -> int:
        """Return the attempts of the whole campaign."""
        return self.campaign.settings.attempts + self.extra_attempts

    def attempts_left(self, agent: str) -> int:
        """Return how often the agent may still submit."""
        standing = self.agents[agent]
        return (
            (self.total - self.used) if standing.share is None else standing.share - standing.used
        )

    def share_of(self, agent: str) -> str:
        """Return the name of the error-wealth share the agent stakes from."""
        return "" if self.campaign.settings.pool else agent

    def stake_of(self, agent: str) -> float:
        """Return what a confirmation by this agent would risk now."""
        return self.campaign.settings.parameters.fraction * self.wealth[self.share_of(agent)]

    @property
    def least_stake(self) -> float:
        """Return the least that a confirmation by anybody would risk now."""
        return self.campaign.settings.parameters.fraction * min(self.wealth.values())

    def limit_reached(self, now: str, agent: str = "") -> str:
        """Return which limit on time or money has been reached, in words, or an empty string.

        Without an agent only what ends the campaign for all of them.
        """
        settings = self.campaign.settings
        if settings.gpu_seconds is not None and self.device_ns >= settings.gpu_seconds * 1e9:
            return f"the device was held for its {settings.gpu_seconds:g} seconds"
        if settings.wall_seconds is not None:
            ran = datetime.fromisoformat(now) - datetime.fromisoformat(self.created_at)
            if ran.total_seconds() >= settings.wall_seconds:
                return f"the campaign's {settings.wall_seconds:g} seconds are over"
        if settings.money is not None and (settings.pool or agent):
            spent = spent_by(self.purses.values()) if settings.pool else 0.0
            own = self.agents[agent].purse if agent else Purse()
            return reached(settings.money, settings.pool, len(self.agents), own, spent)
        return ""

    @property
    def purses(self) -> dict[str, Purse]:
        """Return what each agent is known to have spent."""
        return {name: agent.purse for name, agent in self.agents.items()}

    def next_queued(self) -> str:
        """Return the submission that is judged next; empty where none may be.

        Of each agent no more are judged at a time than the campaign allows.
        """
        return first_in_line(self._waiting(), self._served(), *self._at_work())

    def queue(self) -> list[str]:
        """Return the queued submissions in the order in which they will be judged."""
        return whole_line(self._waiting(), self._served(), self.seq, *self._at_work())

    def judging(self) -> list[Attempt]:
        """Return the submissions that are being judged."""
        return [a for a in self.unsettled.values() if a.state == "judging"]

    def _at_work(self) -> tuple[list[str], int]:
        """Return whose submissions are judged, in the order of their claims, and how many of each may be."""
        agents = [one.agent for one in sorted(self.judging(), key=lambda one: one.claimed_seq)]
        return agents, self.campaign.settings.in_flight

    def _waiting(self) -> list[Attempt]:
        return [a for a in self.unsettled.values() if a.state == "queued"]

    def _served(self) -> dict[str, int]:
        return {name: agent.served for name, agent in self.agents.items()}
