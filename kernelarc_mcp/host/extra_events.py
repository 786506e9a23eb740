"""The row about a record on another model of device: its place on that model's extra board."""

from typing import Literal

from kernelarc_guard.model import Model
from kernelarc_guard.protocol import Result
from kernelarc_guard.ratios import Ratio


class ExtraMeasured(Model):
    """A record was measured against the seed on a device of another model; nothing is decided by it."""

    kind: Literal["extra_measured"] = "extra_measured"
    record: str
    model: str
    device: str
    """As the fleet names it; empty where none took it."""
    result: Result | None
    """With a verdict where it failed there. None where the guard could not do it."""
    over_seed: Ratio | None
    """None where it failed there, or was not measured."""
    machine: str
    detail: str
    """Why there is no ratio; may be empty where there is one."""
