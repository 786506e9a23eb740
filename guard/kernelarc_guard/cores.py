"""Which cores runners use and which the guard keeps."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
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
    """Return the cores beside a runner's, builders' only where there are no others; empty: none."""
    left = frozenset(ALL[:-threads])
    return left - builder_cores() or left


def builder_cores() -> frozenset[int]:
    """Return the cores of compilers that work while another guard may be timing: the first half.

    Empty (any core) on a machine with fewer than four.
    """
    return frozenset(ALL[: len(ALL) // 2]) if len(ALL) >= 4 else frozenset()


def ahead_cores(threads: int) -> frozenset[int]:
    """Return where builds may be made ahead while runners with so many threads are timed.

    On none of these cores is a runner, what ends its windows, or the guard while it times. Empty
    where the machine has too few.
    """
    builders, apart = builder_cores(), other_cores(threads)
    free = builders.isdisjoint(runner_cores(threads)) and builders.isdisjoint(apart)
    return builders if free and apart else frozenset()


def largest_cache() -> int:
    """Return the bytes of the first core's largest cache, 32 MiB where the kernel does not say."""
    units = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}
    sizes = []
    for entry in Path("/sys/devices/system/cpu/cpu0/cache").glob("index*/size"):
        text = entry.read_text().strip()
        if text[:-1].isdigit() and text[-1] in units:
            sizes.append(int(text[:-1]) * units[text[-1]])
    return max(sizes, default=32 << 20)


def allowed_cores(text: str) -> frozenset[int]:
    """Read cores, as in ``0-3,8``; raises ValueError where one is not this process's."""
    found: set[int] = set()
    for part in text.split(","):
        first, _, last = part.partition("-")
        if not first.isdecimal() or (last and not last.isdecimal()) or part.endswith("-"):
            raise ValueError(f"{part!r}: expected cores, for instance 0-3,8")
        found.update(range(int(first), int(last or first) + 1))
    if not found or not found.issubset(ALL):
        raise ValueError(f"{text!r}: expected cores of this process, which has {list(ALL)}")
    return frozenset(found)


@contextmanager
def pinned_to(cores: frozenset[int]) -> Iterator[None]:
    """Keep this thread, and for good all that it starts meanwhile, on some cores."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, cores)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


class PinnedAway:
    """Keep the guard's thread off the runners' cores while it times, where there are enough cores."""

    def __init__(self, runner_threads: int) -> None:
        """Leave the last `runner_threads` cores to the runners, and builders theirs."""
        self._mine = other_cores(runner_threads)

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
