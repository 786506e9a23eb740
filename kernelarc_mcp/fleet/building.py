"""What a campaign's builds ask of a slot that builds for its devices; pure."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from kernelarc_guard.built_with import BUILDER
from kernelarc_mcp.fleet.choice import Device, Needs, why_not

BUILT_WITH: Final = ("C++", "nvcc", "Python", "torch", "tvm-ffi")
"""What of a calibration's toolchain a build depends on; the rest is the device's own, or only runs."""
LEAST_CORES: Final = 4
"""A guard with fewer leaves none to builders beside it."""


@dataclass(frozen=True)
class Building:
    """What is built for a campaign."""

    needs: Needs
    """Of a slot."""
    built_with: Mapping[str, str]
    """What the devices have that it is built for: on others nobody would look for it."""
    architecture: str

    def is_for(self, device: Device) -> bool:
        """Say whether a guard on a device would look for what is built so."""
        same = device.built_with == self.built_with
        return same and device.architecture == self.architecture


def building_for(needs: Needs, devices: Iterable[Device]) -> Building | None:
    """Return what is built for a campaign that needs such devices; None where none says how it builds.

    Where their hosts build differently it is what most of them would.
    """
    kinds: Counter[tuple[tuple[tuple[str, str], ...], ...]] = Counter()
    fitting: dict[object, Building] = {}
    for one in devices:
        if one.built_with and not why_not(needs, one):
            tools = {name: one.toolchain[name] for name in BUILT_WITH if name in one.toolchain}
            wanted = {**tools, **one.built_with}
            kind = (tuple(sorted(wanted.items())), (("architecture", one.architecture),))
            kinds[kind] += 1
            slot = Needs(kind=BUILDER, versions=needs.versions, toolchain=wanted)
            fitting[kind] = Building(slot, one.built_with, one.architecture)
    if not kinds:
        return None
    (most, _), *_ = kinds.most_common(1)
    return fitting[most]


def slot_cores(shares: Sequence[Sequence[int]]) -> tuple[tuple[int, ...], int]:
    """Return on which cores builds disturb no device of a host, and beside how many threads of its runners.

    `shares` are the cores that each device's guard has, which times on the last of them and leaves the first
    half to builders. No cores where one of them has too few.
    """
    if not shares or min(map(len, shares)) < LEAST_CORES:
        return (), 0
    free = {core for share in shares for core in sorted(share)[: len(share) // 2]}
    timed = {core for share in shares for core in sorted(share)[len(share) // 2 :]}
    # One of the other half stays with the guard itself.
    return tuple(sorted(free - timed)), min(len(one) - len(one) // 2 - 1 for one in shares)
