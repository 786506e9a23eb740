"""The strategy lenses, and which of them an operator class may use on a backend."""

from functools import lru_cache
from pathlib import Path
from typing import Any

import yaml
from pydantic import ValidationError

from kernelarc_guard.model import Model
from kernelarc_mcp.data import data_dir
from kernelarc_mcp.host.errors import CampaignError


class Lens(Model):
    """One strategy: what to try, when it pays and when it is a trap."""

    name: str
    title: str
    intent: str
    restrict: dict[str, list[str]] = {}
    """Backend -> the only operator classes the lens is for; a backend not named: every class."""
    pays_when: list[str]
    trap_when: list[str]
    moves: list[str]
    patterns: list[str]
    backends: dict[str, list[str]] = {}
    """Backend -> what the strategy means there."""


def backend_of(device: str) -> str:
    """Return the backend a device belongs to: cpu or cuda."""
    return "cpu" if device.startswith("cpu") else "cuda"


def read_lens(name: str) -> Lens:
    """Read one lens; CampaignError where there is none or its file is malformed."""
    return _read_lens(data_dir("strategies"), name)


def eligible_lenses(operator_class: str, device: str) -> list[str]:
    """Return the lenses for an operator class on a device, in the order they are handed out."""
    folder = data_dir("strategies")
    table = _read_yaml(folder / "eligibility.yaml")
    names = table.get(operator_class, table.get("default"))
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise CampaignError(f"eligibility.yaml: {operator_class}: expected a list of lens names")
    backend = backend_of(device)
    return [
        name
        for name in names
        if operator_class in _read_lens(folder, name).restrict.get(backend, [operator_class])
    ]


@lru_cache(maxsize=64)
def _read_lens(folder: Path, name: str) -> Lens:
    path = folder / f"{name}.yaml"
    if Path(name).name != name or name == "eligibility" or not path.is_file():
        raise CampaignError(f"there is no lens {name!r}")
    try:
        return Lens.model_validate(_read_yaml(path))
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        raise CampaignError(f"{path.name}: {where}: {first['msg']}") from error


def _read_yaml(path: Path) -> dict[str, Any]:
    try:
        value = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, yaml.YAMLError) as error:
        raise CampaignError(f"{path.name}: cannot be read: {error}") from error
    if not isinstance(value, dict):
        raise CampaignError(f"{path.name}: expected a mapping")
    return value
