"""An experiment's file: what is compared, how often, and with which clients."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, Literal, Self

import yaml
from pydantic import Field, ValidationError, field_validator, model_validator

from kernelarc_guard.devices import default_parameters
from kernelarc_guard.model import Model
from kernelarc_mcp.host.settings import CampaignSettings, check_device, check_name

PLACEHOLDERS: Final = ("python", "clients", "url", "agent", "seed", "attempts", "folder")
"""What a client command may name in braces; its token is in KERNELARC_TOKEN, not in the command."""
TUNER: Final = (
    *("{python}", "{clients}/tuner.py", "--url", "{url}", "--name", "{agent}"),
    *("--attempts", "{attempts}", "--seed", "{seed}"),
)
NEVER: Final = 1000
"""A plateau counter that no agent reaches: the most the settings allow."""
_OURS: Final = {
    "name": "each run has a name of its own",
    "problem": "the experiment's own field",
    "device": "the experiment's own field",
    "agents": "the arm's own field",
    "attempts": "the experiment's own field, the same for all arms",
    "memory": "a memory that campaigns share would carry one run's conclusions into the next",
}
_PLACE: Final = re.compile(r"\{([^{}]*)\}")


class ExperimentError(ValueError):
    """A file or a folder that is no experiment, or another one; the message names the field."""


class Arm(Model):
    """One way to search. All arms have the same problem, attempts and seeds."""

    name: str
    agents: int = Field(default=1, ge=1, le=64)
    memory: Literal["private", "bounded", "unbounded"] = "private"
    """private: one agent and what it wrote itself, all of it; bounded: the newest `records` of all
    agents; unbounded: everything that anybody wrote."""
    records: int = Field(default=16, ge=1)
    """Conclusions that a bounded memory shows."""
    board: bool = True
    """Whether an agent that drafts may read the others' sources on the board."""
    lens: bool = True
    """Off: all agents, drafts too, get the problem's first lens, so that nobody specialises."""
    drafting: bool = True
    """Off: no plateau forces a draft."""
    settings: dict[str, Any] = {}
    """Further settings of its campaigns, over those of the experiment."""
    client: list[str] | None = None
    """Another command than the experiment's."""

    @model_validator(mode="after")
    def _possible(self) -> Self:
        if self.memory == "private" and self.agents > 1:
            raise ValueError(
                f"memory: private is one agent's own, this arm has {self.agents} agents; "
                "expected bounded or unbounded, or agents: 1"
            )
        return self


class Experiment(Model):
    """The whole file."""

    name: str
    problem: str
    """A problem of the library, or a folder; a relative path starts at the file's own folder."""
    device: str = "cpu"
    attempts: int = Field(ge=1, le=1_000_000)
    """Of all agents of a run together, in every arm."""
    runs: int = Field(default=5, ge=1, le=1000)
    """Of every arm."""
    seeds: list[int] = []
    """One for each run, the same for all arms, so that runs can be paired; empty: 1, 2, 3 and so on."""
    client: list[str] = list(TUNER)
    """The command of one agent, in its parts; see PLACEHOLDERS."""
    settings: dict[str, Any] = {}
    """Settings of every campaign."""
    idle_seconds: float = Field(default=1800, gt=0)
    """A run in which nothing happened for so long is interrupted, and tried again."""
    arms: list[Arm] = Field(min_length=1, max_length=26)

    @field_validator("client")
    @classmethod
    def _client(cls, client: list[str]) -> list[str]:
        return check_command(client)

    @field_validator("device")
    @classmethod
    def _device(cls, device: str) -> str:
        return check_device(device)

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        seen: set[str] = set()
        for arm in self.arms:
            if arm.name.casefold() in seen:
                raise ValueError(f"arms: {arm.name!r} is there twice; expected different names")
            seen.add(arm.name.casefold())
            if len(arm.name) > 30:
                raise ValueError(f"arms: {arm.name!r} is too long; expected 30 letters at most")
            if not arm.drafting and self.attempts > NEVER:
                raise ValueError(
                    f"arms: {arm.name}: drafting: off needs attempts of at most {NEVER}"
                )
            if arm.client is not None:
                check_command(arm.client)
        if self.seeds and (len(self.seeds) != self.runs or len(set(self.seeds)) != self.runs):
            raise ValueError(f"seeds: expected {self.runs} different ones, one for each run")
        return self

    def seed_of(self, run: int) -> int:
        """Return the seed of a run; runs count from 1."""
        return self.seeds[run - 1] if self.seeds else run

    def command_of(self, arm: Arm) -> list[str]:
        """Return the client command of an arm."""
        return self.client if arm.client is None else arm.client


def check_command(command: list[str]) -> list[str]:
    """Return a client command whose placeholders are known, else raise ValueError."""
    if not command:
        raise ValueError("client: expected a program and its arguments")
    for name in (found for part in command for found in _PLACE.findall(part)):
        if name not in PLACEHOLDERS:
            known = ", ".join(f"{{{one}}}" for one in PLACEHOLDERS)
            raise ValueError(f"client: {{{name}}} stands for nothing; expected {known}")
    return command


def filled(command: list[str], values: Mapping[str, str]) -> list[str]:
    """Return a client command with its placeholders replaced."""
    return [_PLACE.sub(lambda found: values[found[1]], part) for part in command]


def read_experiment(path: Path) -> Experiment:
    """Read an experiment; ExperimentError names the file, the field and what is expected."""
    try:
        raw = yaml.safe_load(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ExperimentError(f"{path}: cannot be read: {error.strerror}") from None
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise ExperimentError(f"{path}: is no YAML: {' '.join(str(error).split())}") from None
    if not isinstance(raw, dict):
        raise ExperimentError(f"{path}: expected fields, such as `name:`, `problem:` and `arms:`")
    try:
        experiment = Experiment.model_validate(raw)
        for arm in experiment.arms:
            check_name(arm.name)
    except ValidationError as error:
        raise ExperimentError(f"{path}: {_said(error)}") from None
    except ValueError as error:
        raise ExperimentError(f"{path}: arms: name: {error}") from None
    return experiment


def settings_of(
    experiment: Experiment, arm: Arm, problem: str, run: int, lenses: list[str]
) -> CampaignSettings:
    """Return the settings of an arm's campaign; ExperimentError names the field that is not possible.

    `lenses` are the eligible ones, `problem` the definition's name.
    """
    given = {**experiment.settings, **arm.settings}
    for field in given:
        if field in _OURS:
            raise ExperimentError(f"arms: {arm.name}: settings.{field}: {_OURS[field]}")
    parameters = default_parameters(experiment.device).model_dump()
    parameters |= _folded("parameters", experiment, arm)
    values = {
        "r_draft": 5 if arm.drafting else NEVER,
        "snapshots": "drafting" if arm.board else "never",
        "retention": "bounded" if arm.memory == "bounded" else "unbounded",
        "retention_count": arm.records,
        "lenses": [] if arm.lens else lenses[:1],
        **given,
        "parameters": parameters,
        "schedule": _folded("schedule", experiment, arm),
        "name": f"{arm.name}-{run}",
        "problem": problem,
        "device": experiment.device,
        "agents": [f"agent-{number}" for number in range(1, arm.agents + 1)],
        "attempts": experiment.attempts,
    }
    try:
        return CampaignSettings.model_validate(values)
    except ValidationError as error:
        raise ExperimentError(f"arms: {arm.name}: settings: {_said(error)}") from None


def _folded(field: str, experiment: Experiment, arm: Arm) -> dict[str, Any]:
    """Return a group of settings, the arm's over the experiment's."""
    found: dict[str, Any] = {}
    for given in (experiment.settings, arm.settings):
        group = given.get(field, {})
        if not isinstance(group, dict):
            raise ExperimentError(f"settings.{field}: expected fields with values")
        found |= group
    return found


def _said(error: ValidationError) -> str:
    fault = error.errors(include_url=False, include_input=False)[0]
    where = ".".join(str(part) for part in fault["loc"])
    said = fault["msg"].removeprefix("Value error, ")
    return f"{where}: {said}" if where else said
