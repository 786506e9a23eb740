"""The campaign's database file: appending hash-chained rows inside transactions that begin by writing."""

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from time import monotonic, sleep
from typing import Final

from filelock import FileLock

from kernelarc_mcp.host.absent import no_campaign
from kernelarc_mcp.host.errors import CampaignError, StorageFault
from kernelarc_mcp.host.events import Row
from kernelarc_mcp.host.schema import KNOWN, migrations
from kernelarc_mcp.host.storage import AGAIN, NOTHING_STORED, explained, storage_faults
from kernelarc_mcp.host.write_lock import Blocker, stopped_writer
from kernelarc_memory.sqlite import Database

FILE: Final = "campaign.db"
BUSY_SECONDS: Final = 30.0
"""How long a writer waits for the others before it gives up."""
_PATIENCE: Final = 2.0
"""How long one that is stopped while it writes is waited for, once."""
_LOOK: Final = 0.1
_COLUMNS: Final = "seq, at, kind, agent, submission, body, prev_hash, hash"


class Ledger:
    """One process's connection to a campaign's database."""

    def __init__(self, connection: sqlite3.Connection, path: Path) -> None:
        """Take over a connection to the database at `path`."""
        self.connection = connection
        self.path = path
        self.busy_seconds = BUSY_SECONDS
        """How long this process waits for other writers."""
        self._file = _identity(path)
        self._stopped: Blocker | None = None
        """Who was seen to be stopped while it writes, when this process wanted to."""

    @property
    def folder(self) -> Path:
        """Return the campaign's directory."""
        return self.path.parent

    @classmethod
    def open(cls, folder: Path, *, create: bool = False) -> "Ledger":
        """Open the database in `folder` for writing and bring its schema up to date.

        CampaignError where there is none (without `create`), where it is no campaign, or where a
        newer version wrote it.
        """
        path = folder / FILE
        if not create and not path.is_file():
            raise CampaignError(no_campaign(folder, FILE))
        with storage_faults(folder):
            connection = sqlite3.connect(
                path, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False
            )
        try:
            with storage_faults(folder), FileLock(folder / f"{FILE}.lock", timeout=BUSY_SECONDS):
                refuse_newer(connection)
                connection.execute("PRAGMA journal_mode=WAL")
                if missing_migrations(connection):
                    migrations.apply(Database(connection))
                connection.execute("PRAGMA synchronous=FULL")
            return cls(connection, path)
        except StorageFault as fault:
            connection.close()
            raise StorageFault(f"cannot be opened: {fault}") from fault
        except sqlite3.DatabaseError as error:
            connection.close()
            raise CampaignError(f"{path}: cannot be opened: {error}") from error
        except BaseException:
            connection.close()
            raise

    @classmethod
    def open_read_only(cls, folder: Path) -> "Ledger":
        """Open the database for reading only; nothing in it is changed."""
        path = (folder / FILE).resolve()
        if not path.is_file():
            raise CampaignError(no_campaign(folder, FILE))
        connection = _connect_read_only(path)
        try:
            with storage_faults(folder):
                refuse_newer(connection)
            return cls(connection, path)
        except BaseException:
            connection.close()
            raise

    def close(self) -> None:
        """Close the connection."""
        self.connection.close()

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Hold the write lock from before the first read until everything is on disk.

        StorageFault where the file is not the campaign's any more, or who writes it is stopped;
        nothing is written then.
        """
        self.expect_the_same_file()
        if not self._begun_at_once():
            self._expect_no_stopped_writer()
            self.connection.execute("BEGIN IMMEDIATE")
        try:
            yield
            self.connection.execute("COMMIT")
        except BaseException:
            # A full disk may end it by itself.
            if self.connection.in_transaction:
                self.connection.rollback()
            raise

    def _begun_at_once(self) -> bool:
        """Begin to write; False where somebody else does just now."""
        self.connection.execute("PRAGMA busy_timeout = 0")
        try:
            self.connection.execute("BEGIN IMMEDIATE")
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY:
                raise
            return False
        finally:
            self.connection.execute(f"PRAGMA busy_timeout = {int(1000 * self.busy_seconds)}")
        self._stopped = None
        return True

    def _expect_no_stopped_writer(self) -> None:
        # SQLite would wait for it, with all that waits for this process, and then not say for whom.
        blocker = stopped_writer(self.path)
        limit = monotonic() + _PATIENCE
        while blocker is not None and blocker != self._stopped and monotonic() < limit:
            sleep(_LOOK)
            blocker = stopped_writer(self.path)
        self._stopped = blocker
        if blocker is not None:
            raise StorageFault(f"{self.folder}: {blocker}. {NOTHING_STORED}; then {AGAIN}")

    def expect_the_same_file(self) -> None:
        """Raise StorageFault where the file is not the campaign's any more."""
        # SQLite goes on writing into a file that has no name any more: all of it would be lost.
        try:
            there = _identity(self.path)
        except FileNotFoundError:
            there = None
        if there != self._file:
            what = "is gone" if there is None else "was replaced"
            raise StorageFault(
                f"{self.path} {what} since this process opened it. Nothing of this call was stored or"
                " charged. Put it back where it was moved or removed, then start this server again"
            )

    def rows_after(self, seq: int, most: int = -1) -> list[Row]:
        """Return the rows after `seq`, in order; at most that many, -1 for all."""
        cursor = self.connection.execute(
            f"SELECT {_COLUMNS} FROM event WHERE seq > ? ORDER BY seq LIMIT ?", [seq, most]
        )
        return [Row(*row) for row in cursor]

    def rows_of(self, kinds: Sequence[str], submission: str = "") -> list[Row]:
        """Return the rows of these kinds, in order; only a submission's, where one is named."""
        marks = ", ".join("?" * len(kinds))
        cursor = self.connection.execute(
            f"SELECT {_COLUMNS} FROM event WHERE kind IN ({marks}) AND ? IN ('', submission)"
            " ORDER BY seq",
            [*kinds, submission],
        )
        return [Row(*row) for row in cursor]

    def row(self, seq: int) -> Row:
        """Return one row; LookupError where there is none."""
        found = self.connection.execute(
            f"SELECT {_COLUMNS} FROM event WHERE seq = ?", [seq]
        ).fetchone()
        if found is None:
            raise LookupError(f"there is no event row {seq}")
        return Row(*found)

    def hash_of(self, seq: int) -> str | None:
        """Return the hash of one row, or None where there is no such row."""
        row = self.connection.execute("SELECT hash FROM event WHERE seq = ?", [seq]).fetchone()
        return None if row is None else str(row[0])

    def last_seq(self) -> int:
        """Return the number of the last row, 0 without one."""
        last: int | None = self.connection.execute("SELECT max(seq) FROM event").fetchone()[0]
        return last or 0

    def append(self, row: Row) -> None:
        """Append a sealed row; only inside a transaction."""
        if not self.connection.in_transaction:
            raise RuntimeError("a row is appended inside a transaction")
        self.connection.execute(
            f"INSERT INTO event ({_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
            [
                row.seq,
                row.at,
                row.kind,
                row.agent,
                row.submission,
                row.body,
                row.prev_hash,
                row.hash,
            ],
        )

    def store_blob(self, digest: str, content: bytes) -> None:
        """Keep the bytes of a source file under their digest."""
        self.connection.execute("INSERT OR IGNORE INTO blob VALUES (?, ?)", [digest, content])

    def blob(self, digest: str) -> bytes | None:
        """Return the bytes kept under a digest, or None."""
        row = self.connection.execute(
            "SELECT content FROM blob WHERE digest = ?", [digest]
        ).fetchone()
        return None if row is None else bytes(row[0])


def damages(connection: sqlite3.Connection) -> list[str]:
    """Return what SQLite finds wrong with the file's pages; empty where it is sound."""
    found = [str(row[0]) for row in connection.execute("PRAGMA integrity_check(5)")]
    return [] if found == ["ok"] else found


def missing_migrations(connection: sqlite3.Connection) -> list[str]:
    """Return the migrations that this version would still apply, in order."""
    return sorted(KNOWN - _applied(connection))


def refuse_newer(connection: sqlite3.Connection) -> None:
    """Raise CampaignError where a version that knows more than this one wrote the database."""
    unknown = sorted(_applied(connection) - KNOWN)
    if unknown:
        raise CampaignError(
            f"this campaign was written by a newer version of kernelarc-mcp (it has"
            f" {', '.join(unknown)}): use that version or a later one"
        )


def _applied(connection: sqlite3.Connection) -> set[str]:
    tables = {row[0] for row in connection.execute("SELECT name FROM sqlite_master")}
    if migrations.migrations_table not in tables:
        return set()
    applied = connection.execute(
        f"SELECT name FROM {migrations.migrations_table} WHERE migration_set = ?",
        [migrations.name],
    )
    return {str(row[0]) for row in applied}


def _identity(path: Path) -> tuple[int, int]:
    status = path.stat()
    return status.st_dev, status.st_ino


def _connect_read_only(path: Path) -> sqlite3.Connection:
    """Connect without the right to write; a copy on a read-only disk is taken as it is."""
    log = path.with_name(f"{path.name}-wal")
    # Taken as immutable, rows that are still in the write-ahead log would be overlooked.
    immutable = not (log.is_file() and log.stat().st_size)
    for suffix in ("?mode=ro", "?immutable=1") if immutable else ("?mode=ro",):
        connection = sqlite3.connect(
            path.as_uri() + suffix, uri=True, timeout=BUSY_SECONDS, isolation_level=None
        )
        try:
            connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
        except sqlite3.DatabaseError as error:
            connection.close()
            problem = error
            continue
        return connection
    why = explained(path.parent, problem) or f"{path}: {problem}"
    raise CampaignError(f"cannot be read: {why}")
