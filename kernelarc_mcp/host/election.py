"""Who dispatches: one process of a campaign holds its seat, and whoever lost it writes nothing more."""

import fcntl
import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from time import monotonic
from typing import Final

from pydantic import ValidationError

from kernelarc_guard.lease import boot_id
from kernelarc_guard.model import Model
from kernelarc_mcp.host.journal import Journal, Writer
from kernelarc_mcp.host.ledger import FILE
from kernelarc_mcp.host.other_processes import standing_of
from kernelarc_mcp.host.state import CampaignState

LOCK: Final = "dispatcher.lock"
HOLDER: Final = "dispatcher.json"
STOPPED_SECONDS: Final = 10.0
"""How long a holder may be seen stopped (SIGSTOP, Ctrl-Z) before another process takes its seat."""


class SeatLost(Exception):
    """This process was the dispatcher and is not any more: another one took over meanwhile."""


class SeatTaken(Exception):
    """Another process dispatches this campaign."""


class Holder(Model):
    """Who holds the seat, as it wrote itself."""

    process: int
    machine: str
    started: int
    """When the process started, in the kernel's ticks since boot: numbers of processes come again."""

    @property
    def gone(self) -> bool:
        """Say whether it was a process of this machine that has ended."""
        if self.machine != machine_id():
            return False
        standing = standing_of(self.process)
        return standing is None or standing.ended or standing.started != self.started

    @property
    def suspended(self) -> bool:
        """Say whether it is a process of this machine that is stopped now."""
        if self.machine != machine_id():
            return False
        standing = standing_of(self.process)
        return standing is not None and standing.stopped and standing.started == self.started


def machine_id() -> str:
    """Return what is the same for all processes that share this machine's monotonic clock."""
    return boot_id()


class Seat:
    """The right to dispatch one campaign: a file lock that the OS frees when its holder dies.

    A holder that is stopped cannot die, so another process takes its seat by putting a new lock
    file in the place of the old one. Both that and `check` happen inside a writing transaction of
    the ledger: what a resumed holder still writes is either before the change or refused.
    """

    def __init__(self, folder: Path, stopped_seconds: float = STOPPED_SECONDS) -> None:
        """Name the campaign's directory; nothing is taken yet."""
        self._folder = folder
        self._path = folder / LOCK
        self._lock: int | None = None
        """Descriptor of the file whose lock is held; it says which file that is, whatever its name means now."""
        self._stopped_seconds = stopped_seconds
        self._seen: Holder | None = None
        self._seen_since = 0.0

    def take(self) -> None:
        """Take the seat at once; SeatTaken where another process has it."""
        lock = os.open(self._path, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(lock)
            raise SeatTaken(f"{self._path}: another process dispatches this campaign") from None
        except BaseException:
            os.close(lock)
            raise
        self._lock = lock
        if self.lost:
            # Put aside between opening and locking it: whoever did may have taken the new one.
            self.release()
            raise SeatTaken(f"{self._path}: another process took it at this moment")
        try:
            self._sign()
        except BaseException:
            self.release()
            raise

    def try_take(self) -> bool:
        """Take the seat where it is free or its holder has been stopped for long; say whether."""
        if self._stopped_for_long():
            self._vacate()
        try:
            self.take()
        except SeatTaken:
            return False
        return True

    @property
    def lost(self) -> bool:
        """Say whether the lock that this process holds is not the campaign's any more."""
        try:
            there = os.stat(self._path)
        except FileNotFoundError:
            return True
        return self._lock is None or not os.path.samestat(there, os.fstat(self._lock))

    def check(self) -> None:
        """Raise SeatLost where the seat is not this process's any more."""
        if self.lost:
            raise SeatLost(f"{self._path}: another process dispatches this campaign now")

    def release(self) -> None:
        """Give the seat back."""
        lock, self._lock = self._lock, None
        if lock is not None:
            os.close(lock)

    def _sign(self) -> None:
        standing = standing_of(os.getpid())
        started = 0 if standing is None else standing.started
        me = Holder(process=os.getpid(), machine=machine_id(), started=started)
        written = self._folder / f"{HOLDER}.new"
        written.write_text(me.model_dump_json() + "\n", encoding="utf-8")
        written.replace(self._folder / HOLDER)

    def _stopped_for_long(self) -> bool:
        holder = holder_of(self._folder)
        if holder is None or not holder.suspended:
            self._seen = None
            return False
        if holder != self._seen:
            self._seen, self._seen_since = holder, monotonic()
        return monotonic() - self._seen_since >= self._stopped_seconds

    def _vacate(self) -> None:
        """Put the stopped holder's lock out of the way, unless it was stopped while it wrote."""
        stopped, self._seen = self._seen, None
        # A connection of its own: the others wait for a writer, which here may never go on.
        connection = sqlite3.connect(self._folder / FILE, timeout=0.0, isolation_level=None)
        try:
            connection.execute("BEGIN IMMEDIATE")
            holder = holder_of(self._folder)
            if holder is not None and holder == stopped and holder.suspended:
                self._path.unlink(missing_ok=True)
            connection.execute("ROLLBACK")
        except sqlite3.OperationalError:
            return  # somebody writes just now, or was stopped doing so: look again later
        finally:
            connection.close()


class SeatJournal(Journal):
    """A journal for whoever holds a seat: each of its transactions first makes sure that it does."""

    def __init__(self, journal: Journal, seat: Seat) -> None:
        """Share another journal's ledger and state."""
        self.ledger = journal.ledger
        self._journal = journal
        self._seat = seat

    def now(self) -> str:
        """Return the time in ISO 8601."""
        return self._journal.now()

    @contextmanager
    def writing(self) -> Iterator[Writer]:
        """As of any journal; SeatLost where the seat is gone, and then nothing was written."""
        with self._journal.writing() as writer:
            self._seat.check()
            yield writer

    @contextmanager
    def reading(self) -> Iterator[CampaignState]:
        """Look at the newest rows; the state must not be kept."""
        with self._journal.reading() as state:
            yield state

    @contextmanager
    def alone(self) -> Iterator[sqlite3.Connection]:
        """As of any journal; SeatLost where the seat is gone, and then nothing was written."""
        with self._journal.alone() as connection:
            self._seat.check()
            yield connection


def holder_of(folder: Path) -> Holder | None:
    """Return who took a campaign's seat last, whether it still lives or not; None where nobody did."""
    try:
        return Holder.model_validate_json((folder / HOLDER).read_bytes())
    except (FileNotFoundError, ValidationError):
        return None
