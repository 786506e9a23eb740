"""Parts of what the tools answer about lenses and what to read."""

from typing import Literal

from kernelarc_guard.model import Described


class RegionView(Described):
    pays: str
    fails: str


class MoveView(Described):
    depth: Literal["cheap", "medium", "deep"]
    do: str
    when: str
    """What a profile or a verdict's times show when this is the next thing to do."""


class LinkView(Described):
    """A resource to read."""

    uri: str
    title: str


class LensCreditView(Described):
    """What a lens brought so far; every number is a function of the ledger's rows."""

    lens: str
    agents: list[str]
    """Agents under it now."""
    assigned: int
    """How often it was handed out: the least often is next."""
    attempts: int
    verdicts: dict[str, int]
    keeps: int
    """KEEPs that stand; a withdrawn record brings nothing."""
    gain_percent: float
    """By how much they are faster together: 100 * (product of their confirmed gains - 1), 50 for 1.5x."""
    gain_per_attempt: float | None
    """The same for one attempt, by the geometric mean, percent; null before its first attempt."""
    device_seconds: float
    """How long the device was held for its judgements."""
    gain_per_device_second: float | None
    """`gain_percent` over these seconds; null while the device was held for none."""
