"""Which of a host's cores each of its devices has for its guard; pure but for `keep_to`."""

import os
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Final

LEAST: Final = 4
"""Cores below which a share would hold a guard up more than neighbours do: builders need half of it."""


def core_shares(cores: Collection[int], devices: int) -> list[tuple[int, ...]]:
    """Return neighbouring cores for each device; all empty (no share) where there are too few.

    A guard times on the last of the cores it is given, so that guards with the same cores would
    time on the same one.
    """
    ordered: Sequence[int] = sorted(cores)
    each = len(ordered) // max(devices, 1)
    if devices < 2 or each < LEAST:
        return [()] * devices
    return [tuple(ordered[number * each : (number + 1) * each]) for number in range(devices)]


def keep_to(cores: Collection[int]) -> None:
    """Keep this process, all its threads and whatever it starts from now on, on some cores."""
    for thread in Path("/proc/self/task").iterdir():
        os.sched_setaffinity(int(thread.name), cores)
