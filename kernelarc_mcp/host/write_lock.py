"""Who keeps others from writing a database, and what to do about one that is stopped while it writes."""

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from kernelarc_mcp.host.other_processes import Standing, command_of, locks_on, standing_of

_WRITER: Final = 120
"""Byte of a `-shm` file that SQLite locks for the one who writes (its WAL format, "WAL-Index locks")."""


@dataclass(frozen=True)
class Blocker:
    """A process that holds a database's write lock."""

    pid: int
    standing: Standing

    def __str__(self) -> str:
        named = f" ({command})" if (command := command_of(self.pid)) else ""
        if not self.standing.stopped:
            return f"process {self.pid}{named} is writing"
        return (
            f"process {self.pid}{named} is stopped in the middle of a write, and nobody else can write"
            f" meanwhile: `kill -CONT {self.pid}` lets it go on, `kill -KILL {self.pid}` ends it and"
            " undoes what it had not finished; nothing that was answered is lost"
        )


def blocker_of(database: Path) -> Blocker | None:
    """Return who writes a database now; None where nobody does or the system does not say.

    A writer in another process namespace is not seen.
    """
    for lock in locks_on(database.with_name(f"{database.name}-shm"), "POSIX"):
        standing = standing_of(lock.pid) if lock.covers(_WRITER) and lock.pid else None
        if standing is not None:
            return Blocker(lock.pid, standing)
    return None


def stopped_writer(database: Path) -> Blocker | None:
    """Return who is stopped while it writes a database; None where nobody is."""
    blocker = blocker_of(database)
    return blocker if blocker is not None and blocker.standing.stopped else None
