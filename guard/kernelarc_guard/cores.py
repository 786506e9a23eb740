"""Which cores runners use and which the guard keeps."""

import os
from pathlib import Path
from types import TracebackType
from typing import Final, Self

ALL: Final = tuple(sorted(os.sched_getaffinity(0)))
"""Cores this process was given, before it pinned itself anywhere."""


def runner_cores(threads: int) -> frozenset[int]:
    """Return the cores of a runner: the last `threads` ones."""
    return frozenset(ALL[-threads:])


def starting_cores(threads: int, slot: int) -> frozenset[int]:
    """Return the cores on which the runner of a slot gets ready, beside those of other slots.

    They are a runner's cores where there are too few: builders keep theirs.
    """
    end = len(ALL) - slot * threads
    if end - threads < len(builder_cores()) or not builder_cores():
        return runner_cores(threads)
    return frozenset(ALL[end - threads : end])


def other_cores(threads: int) -> frozenset[int]:
    """Return the cores beside a runner's; empty where it has all there are."""
    return frozenset(ALL[:-threads])


def builder_cores() -> frozenset[int]:
    """Return the cores of compilers that work while another guard may be timing: the first half.

    Empty (any core) on a machine with fewer than four.
    """
    return frozenset(ALL[: len(ALL) // 2]) if len(ALL) >= 4 else frozenset()


def largest_cache() -> int:
    """Return the bytes of the first core's largest cache, 32 MiB where the kernel does not say."""
    units = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}
    sizes = []
    for entry in Path("/sys/devices/system/cpu/cpu0/cache").glob("index*/size"):
        text = entry.read_text().strip()
        if text[:-1].isdigit() and text[-1] in units:
            sizes.append(int(text[:-1]) * units[text[-1]])
    return max(sizes, default=32 << 20)


class PinnedAway:
    """Keep the guard's thread off the runners' cores while it times, where there are enough cores."""

    def __init__(self, runner_threads: int) -> None:
        """Leave the last `runner_threads` cores to the runners, and builders theirs."""
        left = ALL[:-runner_threads]
        self._mine = tuple(core for core in left if core not in builder_cores()) or left

    def __enter__(self) -> Self:
        if self._mine:
            os.sched_setaffinity(0, self._mine)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        os.sched_setaffinity(0, ALL)
