"""The memory file: SQLite behind a file lock, shared by any number of processes."""

import sqlite3
import threading
import weakref
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Final

from filelock import FileLock

from kernelarc_memory.conclusion import (
    Kind,
    NewConclusion,
    NewerMemory,
    Page,
    Written,
    check,
    microseconds,
    parse_time,
    text_digest,
)
from kernelarc_memory.retention import Retention
from kernelarc_memory.schema import KNOWN, migrations
from kernelarc_memory.search import candidates, stored_in_all
from kernelarc_memory.select import select
from kernelarc_memory.sqlite import Database

_KINDS: Final[tuple[Kind, ...]] = ("win", "trap")
_PAGES: Final = 100
"""Answers that are remembered until somebody writes."""
BUSY_SECONDS: Final = 30.0
"""How long a writer waits for another before it gives up."""


class MemoryStore:
    """Wins and traps in one file; one per campaign, or one for several on purpose."""

    def __init__(self, path: Path) -> None:
        """Open `path` and create it where it is missing; its folder must exist.

        NewerMemory where a newer version wrote it.
        """
        self.path = path
        self._reader: sqlite3.Connection | None = None
        self._reader_lock = threading.Lock()
        self._version = 0
        """What SQLite says changes whenever another connection has written."""
        self._pages: dict[tuple[str, str, str, int], Page] = {}
        with self._lock(), self._connection() as db:
            applied = {one.name for one in migrations.applied(db)}
            if applied - KNOWN:
                raise NewerMemory(
                    f"{path}: this memory was written by a newer version of kernelarc-mcp (it has"
                    f" {', '.join(sorted(applied - KNOWN))}): use that version or a later one"
                )
            if applied != KNOWN:
                db.execute("PRAGMA journal_mode=WAL")
                migrations.apply(db)

    def write(self, new: NewConclusion, key: str = "") -> Written:
        """Store a conclusion, or count it where the same text is there already.

        With a `key` it is written once, however often this is called with that key. Raises
        CapExceeded, EvidenceMismatch or Malformed; then nothing is stored.
        """
        (written,) = self.write_all([new], [key])
        return written

    def write_all(
        self, conclusions: Sequence[NewConclusion], keys: Sequence[str] = ()
    ) -> list[Written]:
        """Store conclusions one after the other in one transaction: all of them or, on a fault, none.

        `keys`, where given, are as many as the conclusions; each as in `write`.
        """
        for new in conclusions:
            check(new)
        named = keys or [""] * len(conclusions)
        with self._lock(), self._connection() as db, _writing(db):
            return [_write(db, new, key) for new, key in zip(conclusions, named, strict=True)]

    def find(self, key: str) -> Written:
        """Return what was written with a key; LookupError where nothing was."""
        with self._connection() as db:
            found = _written(db, key)
        if found is None:
            raise LookupError(f"nothing was written with the key {key!r}")
        return found

    def keys(self) -> set[str]:
        """Return the keys of all that was written with one."""
        with self._connection() as db:
            return {str(row[0]) for row in db.execute("SELECT key FROM written")}

    def read(
        self,
        operator_class: str,
        device: str,
        retention: Retention,
        limit: int,
        kind: Kind | str = "",
        *,
        now: str,
        campaign: str = "",
        position: int | None = None,
    ) -> Page:
        """Return what the retention shows of one operator class on one device, newest first.

        `kind` is win, trap or empty for both, balanced. `now` is ISO 8601 with an offset;
        `position` counts the submissions `campaign` has charged, for a horizon in submissions.
        """
        if kind not in ("", "win", "trap"):
            raise ValueError(f"kind must be win, trap or empty, not {kind!r}")
        if limit < 0:
            raise ValueError(f"limit must not be negative, not {limit}")
        moment: datetime = parse_time(now)
        kinds: list[Kind] = [one for one in _KINDS if kind in ("", one)]
        places = limit if retention.count is None else min(limit, retention.count)
        # Without a horizon the answer changes only when somebody writes.
        timeless = retention.hours is None and retention.submissions is None
        asked = (operator_class, device, kind, places)
        with self._reading() as connection:
            version = connection.execute("PRAGMA data_version").fetchone()[0]
            if version != self._version:
                self._version, self._pages = version, {}
            if timeless and asked in self._pages:
                return self._pages[asked]
            near = candidates(
                connection,
                operator_class,
                device,
                kinds,
                retention,
                places,
                now=moment,
                campaign=campaign,
                position=position,
            )
            stored = stored_in_all(connection, operator_class, device, kinds)
            items = select(near, retention, limit, now=moment, campaign=campaign, position=position)
            page = Page(items=items, stored=stored)
            if timeless and len(self._pages) < _PAGES:
                self._pages[asked] = page
        return page

    @contextmanager
    def _reading(self) -> Iterator[sqlite3.Connection]:
        """Look at one moment of the file through a connection that stays open."""
        with self._reader_lock:
            if self._reader is None:
                self._reader = sqlite3.connect(
                    self.path, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False
                )
                weakref.finalize(self, self._reader.close)
            self._reader.execute("BEGIN")
            try:
                yield self._reader
            finally:
                self._reader.execute("COMMIT")

    def _lock(self) -> FileLock:
        return FileLock(f"{self.path}.lock", timeout=BUSY_SECONDS)

    @contextmanager
    def _connection(self) -> Iterator[Database]:
        connection = sqlite3.connect(self.path, timeout=BUSY_SECONDS)
        try:
            yield Database(connection)
        finally:
            connection.close()


@contextmanager
def _writing(db: Database) -> Iterator[None]:
    """Hold the write lock from the first read on: a transaction that upgrades later can fail."""
    db.execute("BEGIN IMMEDIATE")
    try:
        yield
    except BaseException:
        db.rollback()
        raise
    db.commit()


def _write(db: Database, new: NewConclusion, key: str) -> Written:
    before = _written(db, key) if key else None
    if before is not None:
        return before
    digest = text_digest(new.summary, new.lesson)
    row = db.execute(
        "SELECT id, seen FROM conclusion"
        " WHERE operator_class = ? AND device = ? AND kind = ? AND digest = ?",
        [new.operator_class, new.device, new.kind, digest],
    ).fetchone()
    if row is None:
        written = Written(id=_insert(db, new, digest), merged=False, seen=1)
        _count(db, new)
    else:
        written = Written(id=row[0], merged=True, seen=row[1] + 1)
        db.execute("UPDATE conclusion SET seen = ? WHERE id = ?", [written.seen, written.id])
    _insert_proof(db, written.id, new)
    if key:
        db.execute("INSERT INTO written VALUES (?, ?)", [key, written.id])
    return written


def _written(db: Database, key: str) -> Written | None:
    """Return what was written with a key, or None."""
    row = db.execute(
        "SELECT c.id, c.seen FROM written AS w JOIN conclusion AS c ON c.id = w.conclusion"
        " WHERE w.key = ?",
        [key],
    ).fetchone()
    return None if row is None else Written(id=row[0], merged=True, seen=row[1])


def _insert(db: Database, new: NewConclusion, digest: str) -> int:
    cursor = db.execute(
        "INSERT INTO conclusion (operator_class, device, kind, digest, summary, lesson, seen)"
        " VALUES (?, ?, ?, ?, ?, ?, 1)",
        [new.operator_class, new.device, new.kind, digest, new.summary, new.lesson],
    )
    assert cursor.lastrowid is not None
    return cursor.lastrowid


def _count(db: Database, new: NewConclusion) -> None:
    db.execute(
        "INSERT INTO tally (operator_class, device, kind, stored) VALUES (?, ?, ?, 1)"
        " ON CONFLICT (operator_class, device, kind) DO UPDATE SET stored = stored + 1",
        [new.operator_class, new.device, new.kind],
    )


def _insert_proof(db: Database, conclusion: int, new: NewConclusion) -> None:
    """Keep the evidence; a submission cited again for the same conclusion proves nothing new."""
    inserted = db.execute(
        "INSERT INTO proof (conclusion, campaign, evidence, agent, lens, verdict, reason,"
        " speedup, at, position) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
        " ON CONFLICT (conclusion, campaign, evidence) DO NOTHING",
        [
            conclusion,
            new.campaign,
            new.evidence,
            new.agent,
            new.lens,
            new.verdict,
            new.reason,
            new.speedup,
            new.at,
            new.position,
        ],
    )
    if inserted.rowcount:
        db.execute(
            "UPDATE conclusion SET confirmed = max(confirmed, ?), latest_us = ?,"
            " latest_campaign = ?, latest_position = ? WHERE id = ?",
            [
                new.verdict == "KEEP",
                microseconds(new.at),
                new.campaign,
                new.position,
                conclusion,
            ],
        )
