"""Which waiting request gets the device that is free; pure. Everything else about placing is Ray's."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from kernelarc_guard.built_with import BUILDER

PATIENCE: Final = 30.0
"""Seconds after which a request takes a device that it would rather not have, when none other is free."""
EXTRA: Final = "extra"
"""What a comparison on a model that is not its campaign's own is called here."""
RANKS: Final = {
    "confirm": 0,
    "calibrate": 1,
    "compare": 1,
    "screen": 2,
    "profile": 2,
    "count": 2,
    EXTRA: 3,
}
"""Lower goes first: a confirmation ends what a device was already spent on, and a calibration or a
comparison is what its whole campaign waits for. For what is extra nobody waits."""


@dataclass(frozen=True)
class Device:
    """What a host offers, and with what a guard there judges."""

    name: str
    """The same for as long as it is offered, and nobody else's in the cluster."""
    kind: str
    """`cpu` or `cuda`; `builder` for a slot that only builds."""
    model: str
    host: str
    versions: Mapping[str, str]
    """Of the judging code: `kernelarc` and `protocol`."""
    toolchain: Mapping[str, str]
    """Compilers and packages that solutions are built and run with, as in a calibration."""
    unit: str = ""
    """What is the device's own wherever it is seen: a GPU's UUID."""
    built_with: Mapping[str, str] = field(default_factory=dict)
    """What decides what is built for it there, as `kernelarc_guard.built_with` says it."""
    architecture: str = ""
    """What CUDA C++ is compiled for, as in ``90a``."""


@dataclass(frozen=True)
class Needs:
    """What a request asks of the device that it is judged on."""

    kind: str
    versions: Mapping[str, str]
    model: str = ""
    """Empty: any."""
    toolchain: Mapping[str, str] = field(default_factory=dict)
    """Of the campaign's calibration; empty: any."""


@dataclass(frozen=True)
class Bid:
    """A request that waits for a device."""

    key: str
    campaign: str
    op: str
    needs: Needs
    elsewhere: frozenset[str] = frozenset()
    """Devices that it would rather not have: where it was screened, or where it was lost."""
    since: float = 0.0
    """When it began to wait, in seconds of the clock that `choose` is told."""


def why_not(needs: Needs, device: Device) -> str:
    """Return why a device cannot serve a request, or an empty string."""
    if device.kind != needs.kind:
        return f"it is a {device.kind} device; the campaign measures on {needs.kind}"
    for name, wanted in needs.versions.items():
        found = device.versions.get(name, "unknown")
        if found != wanted:
            return f"{name} is {found} there; the server has {wanted}"
    if needs.model and device.model != needs.model:
        return f"it is a {device.model}; the campaign's device is a {needs.model}"
    if needs.toolchain:
        builds = needs.kind == BUILDER
        # What builds for any campaign has more than one of them needs.
        names = needs.toolchain if builds else {*needs.toolchain, *device.toolchain}
        for name in sorted(names):
            wanted, found = (of.get(name, "none") for of in (needs.toolchain, device.toolchain))
            if found != wanted:
                with_what = "builds with" if builds else "was calibrated with"
                return f"{name} is {found} there; the campaign {with_what} {wanted}"
    return ""


def choose(
    device: Device,
    bids: Iterable[Bid],
    shares: Mapping[str, float],
    devices: Collection[Device],
    now: float,
) -> Bid | None:
    """Return which of the waiting requests a free device takes, or None where none suits.

    `shares` are the device seconds that campaigns had; among requests of one rank, whose campaign had
    least goes first. `devices` are all that are sound, busy ones too: a request leaves a device that it
    would rather not have to others, unless there is no other one or it has waited for PATIENCE.
    """

    def takes(bid: Bid) -> bool:
        if why_not(bid.needs, device):
            return False
        if device.name not in bid.elsewhere or now - bid.since >= PATIENCE:
            return True
        return not any(
            one.name not in bid.elsewhere and not why_not(bid.needs, one) for one in devices
        )

    def order(bid: Bid) -> tuple[int, float, float]:
        return RANKS.get(bid.op, max(RANKS.values())), shares.get(bid.campaign, 0.0), bid.since

    return min(filter(takes, bids), key=order, default=None)
