"""Saying to every process what is being judged: notes to all, and the guard's signs of life."""

import logging
from contextlib import suppress
from time import monotonic
from typing import Final

from kernelarc_guard.protocol import DEVICE_HELD, Progress
from kernelarc_mcp.host.election import SeatLost
from kernelarc_mcp.host.errors import StorageFault
from kernelarc_mcp.host.guard_client import WAITING, OnProgress
from kernelarc_mcp.host.judgement import Judge

_LOG: Final = logging.getLogger(__name__)
NOTABLE: Final = {"notable": True}
"""Of a log's record: no warning, but stderr is told it all the same."""
_PROGRESS_SECONDS: Final = 0.2
"""Signs of life are written no more often than this, for each costs a write to disk."""
_NOTE_SECONDS: Final = 1.0
"""The same for what is measured beside submissions, which wakes everybody who waits."""


class Teller:
    """What a dispatcher says beside the ledger's rows."""

    def __init__(self, judge: Judge) -> None:
        self._judge = judge
        self._usual = ""
        self._fleet = ""

    def usually(self, note: str) -> None:
        """Say this from now on whenever nothing else is to be said."""
        if note != self._usual:
            self._usual = note
            self.all_is_well()

    def all_is_well(self) -> None:
        """Take the last note back."""
        self._judge.note(self._usual)

    def note(self, message: str) -> None:
        """Say to everybody why nothing is judged, or what is measured."""
        self._judge.note(message)

    def try_note(self, message: str) -> None:
        """The same where the disk may be full."""
        with suppress(StorageFault):
            self._judge.note(message)

    def fleet(self, words: str) -> None:
        """Say what the fleet has, where that is not what was said last."""
        if words != self._fleet:
            self._fleet = words
            if words:
                _LOG.info("%s", words, extra=NOTABLE)
            with suppress(StorageFault):
                self._judge.fleet(words)

    def leave(self) -> None:
        """Take back what was said of this process's work, unless another has the seat."""
        with suppress(SeatLost):
            self.all_is_well()
            self.fleet("")
        self._fleet = ""

    def noter(self, what: str) -> OnProgress:
        """Say to everybody what is measured; return what adds the guard's signs of life to it."""
        self._judge.note(f"{what}.")
        last = 0.0

        def heard(progress: Progress) -> None:
            nonlocal last
            now = monotonic()
            held = progress.message in (WAITING, DEVICE_HELD)
            if held or now - last >= _NOTE_SECONDS:
                last = now
                with suppress(SeatLost):  # as below
                    self._judge.note(f"{what}: {progress.message}.")

        return heard

    def reporter(self, ticket: str, *, confirming: bool) -> OnProgress:
        """Return what passes the guard's signs of life on, a few times a second."""
        last = 0.0
        stage = ""

        def report(progress: Progress) -> None:
            nonlocal last, stage
            now = monotonic()
            if progress.stage == stage and now - last < _PROGRESS_SECONDS:
                return
            last, stage = now, progress.stage
            with suppress(SeatLost):  # noticed when the answer is to be stored
                self._judge.progress(ticket, progress, confirming=confirming)

        return report
