"""What a device's state was after a block, and what of it is worth saying; light."""

from collections import Counter
from collections.abc import Sequence
from typing import Final

from pydantic import Field

from kernelarc_guard.model import Model

_SLOWED: Final = (
    "power cap",
    "hardware slowdown",
    "software thermal slowdown",
    "hardware thermal slowdown",
    "power brake",
)
"""What holds clocks down while there is work."""
_GROWN_BYTES: Final = 64 << 20


class OtherProcess(Model):
    """A process with a context on the device that is neither the guard nor of its making."""

    pid: int
    bytes: int = Field(ge=0)


class DeviceState(Model):
    """A device right after a block. None: it does not tell."""

    pair: int = Field(default=0, ge=0)
    """Which pair of the request, from 1; 0: outside of pairs."""
    sm_mhz: int | None = None
    memory_mhz: int | None = None
    power_w: float | None = None
    temperature_c: int | None = None
    held_by: list[str] | None = None
    """What held the clocks down."""
    free_bytes: int = Field(ge=0)
    """The memory census: what nobody holds."""
    others: list[OtherProcess] | None = None
    """None: processes cannot be told apart here."""


def noteworthy(states: Sequence[DeviceState]) -> list[str]:
    """Return one line for each thing that the states of one request's blocks show."""
    if not states:
        return []
    lines = []
    slowed = Counter(word for one in states for word in one.held_by or [] if word in _SLOWED)
    for word, count in slowed.items():
        lines.append(f"clocks_held_down: {word} after {count} of {len(states)} blocks")
    seen = {one.pid: one for state in states for one in state.others or []}
    for other in seen.values():
        lines.append(
            f"gpu_not_idle: process {other.pid}, not of this guard, has a context on the device "
            f"({other.bytes >> 20} MiB)"
        )
    if all(state.others is None for state in states):
        lines.append("gpu_not_idle: whether others use the device cannot be told here")
    lines += _grown(states)
    return lines


def _grown(states: Sequence[DeviceState]) -> list[str]:
    """Return what to note of pairs in which memory went from block to block."""
    by_pair: dict[int, list[int]] = {}
    for state in states:
        by_pair.setdefault(state.pair, []).append(state.free_bytes)
    most = max(free[0] - free[-1] for free in by_pair.values())
    if most <= _GROWN_BYTES:
        return []
    return [
        f"memory_grows: {most >> 20} MiB more were held after a pair's last block than its first"
    ]
