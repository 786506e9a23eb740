"""The rows of the ledger: one typed body for each kind of event."""

import hashlib
import json
from dataclasses import dataclass
from typing import Annotated, Any, Final, Literal

from pydantic import Field, TypeAdapter, ValidationError

from kernelarc_guard.model import Model
from kernelarc_guard.problem import Problem
from kernelarc_guard.protocol import Result
from kernelarc_guard.reasons import Stage, Verdict
from kernelarc_guard.solution import Solution
from kernelarc_mcp.host.extra_events import ExtraMeasured
from kernelarc_mcp.host.profile_events import ProfileAsked, ProfileDone
from kernelarc_mcp.host.settings import CampaignSettings
from kernelarc_mcp.host.usage import Used
from kernelarc_mcp.host.watch_events import (
    CalibrationAsked,
    CalibrationDropped,
    Canary,
    Quarantined,
    Remeasured,
    SpreadUpdated,
    Suspected,
)

SEED: Final = "seed"
"""What the first record and an agent's first branch are called."""
GENESIS: Final = "0" * 64
"""What the first row's hash is chained to."""


class Created(Model):
    """The campaign exists."""

    kind: Literal["created"] = "created"
    settings: CampaignSettings
    """With `lenses` filled in."""
    problem: Problem
    problem_digest: str
    operator_class: str
    seed: Solution
    """The first record."""
    seed_digest: str
    seed_dsl: str
    reference: Solution | None
    """The reference as a solution, judged once as a baseline; None where it is the seed."""


class AgentAdded(Model):
    """An agent joined after the campaign was created."""

    kind: Literal["agent_added"] = "agent_added"
    attempts: int | None = Field(ge=0)
    """Attempts of its own, added to the campaign's; None where it draws from the pool."""


class Registered(Model):
    """An agent took its first look and was given a lens."""

    kind: Literal["registered"] = "registered"
    lens: str


class FileRef(Model):
    """One source file; its bytes are in the table `blob`, unless it was too large to keep."""

    path: str
    digest: str
    size: int = Field(ge=0)


class Proposal(Model):
    """What an agent submitted, as it was sent."""

    language: str
    entry_point: str
    """`file::function`."""
    destination_passing: bool
    binding: str
    cflags: list[str] = []
    cuda_cflags: list[str] = []
    ld_flags: list[str] = []
    files: list[FileRef]
    summary: str = ""
    algorithm: str = ""
    layout: str = ""
    dsl: str = ""
    model: str = ""
    tokens: int | None = Field(default=None, ge=0)
    """As reported by the client; only recorded."""
    cost: float | None = Field(default=None, ge=0, allow_inf_nan=False)
    """In US dollars, as reported by the client; counts towards the campaign's `money` alone."""


class Submitted(Model):
    """An attempt was made and charged."""

    kind: Literal["submitted"] = "submitted"
    number: int = Field(ge=1)
    """Of all attempts in the campaign."""
    request_id: str
    proposal: Proposal
    lens: str
    episode: int = Field(ge=0)
    """The drafting episode it answers; 0 outside of one."""
    key: str | None
    """Digest that two submissions with the same normalised source share; None: not computed."""
    found_dsl: str
    """As found in the sources."""
    solution_digest: str | None


class Judging(Model):
    """The dispatcher claimed a submission."""

    kind: Literal["judging"] = "judging"
    against: str
    """The record it is compared with."""
    stake: float = Field(gt=0)
    """What a confirmation would risk now."""
    machine: str
    """Boot of the machine whose clock its leases are on."""
    process: int


class Screened(Model):
    """The guard answered the screen."""

    kind: Literal["screened"] = "screened"
    result: Result


class Staked(Model):
    """A confirmation was paid for, before its first pair."""

    kind: Literal["staked"] = "staked"
    amount: float = Field(gt=0)
    wealth: float = Field(ge=0)
    """What is left of the share it was taken from."""


class Confirmed(Model):
    """The guard answered the confirmation."""

    kind: Literal["confirmed"] = "confirmed"
    result: Result


class Interrupted(Model):
    """A judgement did not end; the submission is queued again, uncharged."""

    kind: Literal["interrupted"] = "interrupted"
    cause: Literal[
        "guard_died",
        "guard_refused",
        "dispatcher_lost",
        "stopped",
        "record_moved",
        "record_drifted",
        "record_failed",
        "builder_lost",
        "device_lost",
        "record_suspect",
        "device_quarantined",
    ]
    detail: str


class Settled(Model):
    """A submission has its verdict."""

    kind: Literal["settled"] = "settled"
    verdict: Verdict
    reason: str
    stage: Stage
    detail: str
    duplicate_of: str | None = None
    speedup: float | None = Field(default=None, gt=0)
    """Over the record it was compared with."""
    lower: float | None = None


class Drafting(Model):
    """An agent reached the plateau and must draft, under another lens."""

    kind: Literal["drafting"] = "drafting"
    episode: int = Field(ge=1)
    lens: str


class Calibrated(Model):
    """The noise of this problem on this device was measured."""

    kind: Literal["calibrated"] = "calibrated"
    result: Result
    machine: str
    """Boot of the machine whose clock its lease is on."""
    description: str = ""
    """The machine in words."""


class Baselined(Model):
    """A known solution was judged as a line to beat."""

    kind: Literal["baselined"] = "baselined"
    name: str
    result: Result | None
    """None where the guard could not judge it."""
    detail: str
    machine: str
    asked_after: int | None = Field(default=None, ge=1)
    """The newest row when the guard was asked: its stake is from there. None: the row before."""


class Concluded(Model):
    """An agent wrote a conclusion; it is in the memory under this row's hash."""

    kind: Literal["concluded"] = "concluded"
    conclusion: int | None = None
    """Its number in the memory, in rows that do not hold its text."""
    conclusion_kind: Literal["win", "trap"]
    evidence: str
    summary: str = ""
    """Empty in rows of versions that wrote the memory first."""
    lesson: str = ""
    position: int = Field(default=0, ge=0)
    """Attempts charged when it was written."""


Body = Annotated[
    Created
    | AgentAdded
    | Registered
    | Submitted
    | Judging
    | Screened
    | Staked
    | Confirmed
    | Interrupted
    | Settled
    | Drafting
    | Calibrated
    | Baselined
    | Concluded
    | CalibrationAsked
    | CalibrationDropped
    | SpreadUpdated
    | Suspected
    | Remeasured
    | Canary
    | Quarantined
    | ProfileAsked
    | ProfileDone
    | ExtraMeasured
    | Used,
    Field(discriminator="kind"),
]
BODY: TypeAdapter[Body] = TypeAdapter(Body)


@dataclass(frozen=True)
class Row:
    """One row as it is stored."""

    seq: int
    at: str
    kind: str
    agent: str
    submission: str
    body: str
    prev_hash: str
    hash: str

    def computed_hash(self) -> str:
        """Return the hash that the row's content and `prev_hash` should have."""
        content = canonical([self.seq, self.at, self.kind, self.agent, self.submission, self.body])
        return hashlib.sha256(f"{self.prev_hash}\n{content}".encode()).hexdigest()


@dataclass(frozen=True)
class Event:
    """One row with its body read."""

    seq: int
    at: str
    """ISO 8601 with an offset."""
    agent: str
    """Empty where it concerns no one agent."""
    submission: str
    """Empty where it concerns no one submission."""
    body: Body
    hash: str


def canonical(value: Any) -> str:
    """Return the one JSON text of a value: no spaces, ASCII, no NaN, keys in the model's order.

    Sorting the keys would lose the order of a problem's inputs, which is the order of the call.
    """
    return json.dumps(value, separators=(",", ":"), allow_nan=False)


def seal(seq: int, at: str, agent: str, submission: str, body: Body, prev_hash: str) -> Row:
    """Make the row that follows the one with hash `prev_hash`."""
    text = canonical(body.model_dump(mode="json"))
    open_row = Row(seq, at, body.kind, agent, submission, text, prev_hash, "")
    return Row(seq, at, body.kind, agent, submission, text, prev_hash, open_row.computed_hash())


def read(row: Row) -> Event:
    """Read a row's body; ValueError where it is none of the known kinds."""
    try:
        body = BODY.validate_json(row.body)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        raise ValueError(f"the body of event row {row.seq}: {where}: {first['msg']}") from error
    if body.kind != row.kind:
        raise ValueError(f"event row {row.seq} says {row.kind}, its body {body.kind}")
    return Event(row.seq, row.at, row.agent, row.submission, body, row.hash)


__all__ = [
    "BODY",
    "GENESIS",
    "SEED",
    "AgentAdded",
    "Baselined",
    "Body",
    "Calibrated",
    "CalibrationAsked",
    "CalibrationDropped",
    "Canary",
    "Concluded",
    "Confirmed",
    "Created",
    "Drafting",
    "Event",
    "ExtraMeasured",
    "FileRef",
    "Interrupted",
    "Judging",
    "ProfileAsked",
    "ProfileDone",
    "Proposal",
    "Quarantined",
    "Registered",
    "Remeasured",
    "Row",
    "Screened",
    "Settled",
    "SpreadUpdated",
    "Staked",
    "Submitted",
    "Suspected",
    "Used",
    "canonical",
    "read",
    "seal",
]
