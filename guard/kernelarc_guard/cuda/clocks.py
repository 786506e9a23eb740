"""Holding a GPU's clocks at one value while it is leased: only where its operator asked for that."""

import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final, Protocol

from kernelarc_guard.cuda.nvml import NoNvml
from kernelarc_guard.faults import Refused

LOCK_CLOCKS: Final = "KERNELARC_LOCK_CLOCKS"
"""Environment variable of the guard: the megahertz of the multiprocessors; absent: they are left alone."""
_STAY: Final = "the clocks stay locked, they could not be let go"
_LOG: Final = logging.getLogger(__name__)


class Clocks(Protocol):
    """What can hold a device's clocks."""

    def lock_clocks(self, mhz: int) -> None:
        """Hold them at one value; raises NoNvml."""

    def free_clocks(self) -> None:
        """Let them go; raises NoNvml."""


@contextmanager
def steady(clocks: Clocks | None, missing: str = "") -> Iterator[None]:
    """Hold the clocks where that was asked for; Refused where it was and cannot be done.

    `missing` is why there is nothing that could hold them. Clocks that cannot be let go again are
    Refused too, but hide nothing that was raised before: that goes on, and they are logged.
    """
    asked = os.environ.get(LOCK_CLOCKS, "")
    if not asked:
        yield
        return
    if not asked.isdecimal() or not int(asked):
        raise Refused(f"{LOCK_CLOCKS}: {asked!r}; expected megahertz, as in 1500")
    if clocks is None:
        raise Refused(f"the clocks cannot be locked: {missing}")
    try:
        clocks.lock_clocks(int(asked))
    except NoNvml as error:
        raise Refused(f"the clocks cannot be locked: {error}") from None
    try:
        yield
    except BaseException:
        try:
            clocks.free_clocks()
        except NoNvml as error:
            _LOG.error("%s: %s", _STAY, error)
        raise
    try:
        clocks.free_clocks()
    except NoNvml as error:
        raise Refused(f"{_STAY}: {error}") from None
