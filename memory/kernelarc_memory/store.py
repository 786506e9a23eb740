"""The memory file: SQLite behind a file lock, shared by any number of processes."""

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Final

from filelock import FileLock
from sqlite_utils import Database

from kernelarc_memory.conclusion import (
    Kind,
    NewConclusion,
    Page,
    Proof,
    Stored,
    Written,
    check,
    parse_time,
    text_digest,
)
from kernelarc_memory.retention import Retention
from kernelarc_memory.schema import migrations
from kernelarc_memory.select import select

BUSY_SECONDS: Final = 30.0
"""How long a writer waits for another before it gives up."""


class MemoryStore:
    """Wins and traps in one file; one per campaign, or one for several on purpose."""

    def __init__(self, path: Path) -> None:
        """Open `path` and create it where it is missing; its folder must exist."""
        self.path = path
        with self._lock(), self._connection() as db:
            db.execute("PRAGMA journal_mode=WAL")
            migrations.apply(db)

    def write(self, new: NewConclusion) -> Written:
        """Store a conclusion, or count it where the same text is there already.

        Raises CapExceeded, EvidenceMismatch or Malformed; then nothing is stored.
        """
        check(new)
        digest = text_digest(new.summary, new.lesson)
        with self._lock(), self._connection() as db, _writing(db):
            row = db.execute(
                "SELECT id, seen FROM conclusion"
                " WHERE operator_class = ? AND device = ? AND kind = ? AND digest = ?",
                [new.operator_class, new.device, new.kind, digest],
            ).fetchone()
            if row is None:
                written = Written(id=_insert(db, new, digest), merged=False, seen=1)
            else:
                written = Written(id=row[0], merged=True, seen=row[1] + 1)
                db.execute(
                    "UPDATE conclusion SET seen = ? WHERE id = ?", [written.seen, written.id]
                )
            _insert_proof(db, written.id, new)
        return written

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
        with self._connection() as db:
            kept = _load(db, operator_class, device, kind)
        items = select(kept, retention, limit, now=moment, campaign=campaign, position=position)
        return Page(items=items, stored=len(kept))

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


def _insert(db: Database, new: NewConclusion, digest: str) -> int:
    cursor = db.execute(
        "INSERT INTO conclusion (operator_class, device, kind, digest, summary, lesson, seen)"
        " VALUES (?, ?, ?, ?, ?, ?, 1)",
        [new.operator_class, new.device, new.kind, digest, new.summary, new.lesson],
    )
    assert cursor.lastrowid is not None
    return cursor.lastrowid


def _insert_proof(db: Database, conclusion: int, new: NewConclusion) -> None:
    """Keep the evidence; a submission cited again for the same conclusion proves nothing new."""
    db.execute(
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


def _load(db: Database, operator_class: str, device: str, kind: str) -> list[Stored]:
    """Read conclusions with their proofs in one statement, so that it is one moment's view."""
    rows = db.execute(
        "SELECT c.id, c.kind, c.summary, c.lesson, c.seen, p.evidence, p.agent, p.lens,"
        " p.verdict, p.reason, p.speedup, p.campaign, p.at, p.position"
        " FROM conclusion AS c JOIN proof AS p ON p.conclusion = c.id"
        " WHERE c.operator_class = ? AND c.device = ? AND (? = '' OR c.kind = ?)"
        " ORDER BY c.id, p.id",
        [operator_class, device, kind, kind],
    ).fetchall()
    heads: dict[int, tuple[Kind, str, str, int]] = {}
    proofs: dict[int, list[Proof]] = {}
    for row in rows:
        heads[row[0]] = (row[1], row[2], row[3], row[4])
        proofs.setdefault(row[0], []).append(
            Proof(
                evidence=row[5],
                agent=row[6],
                lens=row[7],
                verdict=row[8],
                reason=row[9],
                speedup=row[10],
                campaign=row[11],
                at=row[12],
                position=row[13],
            )
        )
    return [
        Stored(
            id=number,
            kind=head[0],
            summary=head[1],
            lesson=head[2],
            seen=head[3],
            device=device,
            operator_class=operator_class,
            proofs=tuple(proofs[number]),
        )
        for number, head in heads.items()
    ]
