"""Runners that were killed and may still be there: on a GPU their end takes a while. Imports torch."""

from collections.abc import Iterable
from typing import Final

from kernelarc_guard.arm import Arm

_MOST: Final = 8
_MOST_BYTES: Final = 8 << 30
"""Of their buffers on the device."""


class Dying:
    """The killed runners of one judgement, the oldest first."""

    def __init__(self) -> None:
        """Start with none."""
        self._arms: list[Arm] = []

    def add(self, arms: Iterable[Arm], at_once: bool) -> None:
        """Kill runners, and wait for their end only where that is soon, `at_once`, or many are dying."""
        for arm in arms:
            arm.let_die()
            self._arms.append(arm)
        held = sum(arm.nbytes for arm in self._arms)
        while self._arms and (
            at_once or not self._arms[0].lingers or len(self._arms) > _MOST or held > _MOST_BYTES
        ):
            held -= self._arms[0].nbytes
            self._arms.pop(0).close()

    def bury(self) -> None:
        """Wait until none is left."""
        while self._arms:
            self._arms.pop(0).close()
