"""What a campaign was created with; fixed for its whole life, stored in the ledger's first row."""

import re
from pathlib import Path
from typing import Final, Literal, Self

from pydantic import Field, field_validator, model_validator

from kernelarc_guard.decide import Parameters
from kernelarc_guard.devices import default_parameters
from kernelarc_guard.model import Model
from kernelarc_guard.protocol import Schedule
from kernelarc_memory import Retention

NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,39}")
"""What a campaign or an agent may be called: it becomes a directory name."""
_DEVICE: Final = re.compile(r"cpu|cuda:(0|[1-9][0-9]{0,3})")


def check_name(name: str) -> str:
    """Return `name` where it can name an agent or a campaign, else raise ValueError."""
    if not NAME.fullmatch(name):
        raise ValueError(
            f"{name!r}: 1 to 40 letters, digits, '-' or '_', starting with a letter or a digit"
        )
    return name


def check_device(name: str) -> str:
    """Return `name` where a guard can know it as a device, else raise ValueError."""
    if not _DEVICE.fullmatch(name):
        raise ValueError(f"{name!r}: expected cpu or cuda:N, for instance cuda:0 for the first GPU")
    return name


class CampaignSettings(Model):
    """One search: its agents, its budget and its rules."""

    name: str
    problem: str
    """Name of the problem's definition."""
    device: str = "cpu"
    agents: list[str] = Field(min_length=1, max_length=64)
    """Expected agents; with a pool others may join."""
    attempts: int = Field(default=100, ge=1, le=1_000_000)
    """Submissions of all agents together."""
    pool: bool = False
    """Draw attempts and error wealth from one pool instead of splitting them evenly."""
    r_draft: int = Field(default=5, ge=1, le=1000)
    """The plateau counter at which an agent must draft."""
    snapshots: Literal["always", "drafting", "never"] = "drafting"
    """When an agent may read the sources of others."""
    lenses: list[str] = []
    """Eligible lenses in order of assignment; empty: those of the problem's operator class."""
    retention: Literal["bounded", "unbounded", "horizon"] = "bounded"
    retention_count: int | None = Field(default=16, ge=1)
    """Most conclusions shown; not used by `unbounded`."""
    retention_submissions: int | None = Field(default=None, ge=1)
    retention_hours: float | None = Field(default=None, gt=0)
    memory: str = ""
    """Path of a memory shared with other campaigns; empty: one of its own."""
    parameters: Parameters = Field(
        default_factory=lambda given: default_parameters(given["device"])
    )
    """Of the KEEP rule; `wealth` is the campaign's error budget."""
    schedule: Schedule = Schedule()
    calibration_nurseries: int = Field(default=1, ge=1, le=100)
    """Of the campaign's own calibration; three or more reveal a bias all pairs of one share."""
    canary_rate: float = Field(default=0.1, ge=0, le=1)
    """Canaries per judged submission, A/A and planted delays in turn; 0: none."""
    lines_to_beat: bool = True
    """Measure the lines to beat before the first submission; each takes seconds."""
    gpu_seconds: float | None = Field(default=None, gt=0)
    """Stop when the device was held this long for submissions."""
    wall_seconds: float | None = Field(default=None, gt=0)
    """Stop this long after the campaign was created."""
    money: float | None = Field(default=None, gt=0, le=1e9)
    """US dollars that agents may spend, as far as their clients say; split evenly without a pool."""
    in_flight: int = Field(default=1, ge=1, le=64)
    """Submissions of one agent that may be judged at a time, where there are lanes for them."""
    device_model: str = ""
    """Model of the devices that judge, as a fleet names it; empty: a fleet must have one model only."""
    extra_models: list[str] = Field(default=[], max_length=8)
    """Further models of a fleet: each record is measured there too, which decides nothing."""
    judgement_seconds: float = Field(default=1800.0, gt=0)
    """Deadline of one request to the guard."""

    @field_validator("agents")
    @classmethod
    def _agents(cls, agents: list[str]) -> list[str]:
        for agent in agents:
            check_name(agent)
        if len({agent.casefold() for agent in agents}) != len(agents):
            raise ValueError("agents: names must differ in more than case")
        return agents

    @field_validator("name")
    @classmethod
    def _name(cls, name: str) -> str:
        return check_name(name)

    @field_validator("memory")
    @classmethod
    def _memory(cls, memory: str) -> str:
        if memory and not Path(memory).is_absolute():
            raise ValueError(f"{memory!r}: an absolute path, as servers start anywhere")
        return memory

    @model_validator(mode="after")
    def _possible(self) -> Self:
        if not self.pool and self.attempts < len(self.agents):
            raise ValueError("attempts: at least one for each agent")
        if self.extra_models and not self.device_model:
            raise ValueError("extra_models: name the campaign's own model in device_model, too")
        if self.device_model in self.extra_models or "" in self.extra_models:
            raise ValueError("extra_models: models other than device_model, by their names")
        if len(set(self.extra_models)) != len(self.extra_models):
            raise ValueError("extra_models: a name occurs twice")
        if self.parameters.fraction > 0.5:
            raise ValueError("parameters: a stake is at most half of the wealth, fraction <= 0.5")
        if len(set(self.lenses)) != len(self.lenses):
            raise ValueError("lenses: a name occurs twice")
        if (
            self.retention == "horizon"
            and self.retention_submissions is None
            and self.retention_hours is None
        ):
            raise ValueError("retention: a horizon needs submissions, hours or both")
        return self

    def share(self, position: int) -> int | None:
        """Return the attempts of the agent at `position`, or None where it draws from the pool."""
        if self.pool:
            return None
        each, rest = divmod(self.attempts, len(self.agents))
        return each + (rest if position == 0 else 0)

    def memory_retention(self) -> Retention:
        """Return the retention as the memory understands it."""
        if self.retention == "unbounded":
            return Retention.unbounded()
        if self.retention == "horizon":
            return Retention.horizon(
                submissions=self.retention_submissions,
                hours=self.retention_hours,
                count=self.retention_count,
            )
        return Retention.bounded(self.retention_count or 16)
