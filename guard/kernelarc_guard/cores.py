"""Which cores runners use and which the guard keeps."""

import os
from types import TracebackType
from typing import Final, Self

ALL: Final = tuple(sorted(os.sched_getaffinity(0)))
"""Cores this process was given, before it pinned itself anywhere."""


def runner_cores(threads: int) -> frozenset[int]:
    """Return the cores of a runner: the last `threads` ones."""
    return frozenset(ALL[-threads:])


class PinnedAway:
    """Keep the guard's thread off the runners' cores while it times, where there are enough cores."""

    def __init__(self, runner_threads: int) -> None:
        """Leave the last `runner_threads` cores to the runners."""
        self._mine = ALL[:-runner_threads]

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
