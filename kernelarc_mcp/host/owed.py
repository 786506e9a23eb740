"""What a transaction leaves to be done outside of the database: noted with it, removed when it is done.

A process that is killed in between leaves the note; whoever comes next does it, and doing it twice is
doing it once.
"""

import sqlite3
from dataclasses import dataclass
from typing import Literal

Owed = Literal["conclusion", "workspace"]


@dataclass(frozen=True)
class Debt:
    """One thing that is still to be done."""

    number: int
    agent: str
    seq: int
    """Row that made it necessary."""


def owe(connection: sqlite3.Connection, kind: Owed, agent: str, seq: int) -> None:
    """Note a debt, inside the transaction that makes it."""
    connection.execute("INSERT INTO owed (kind, agent, seq) VALUES (?, ?, ?)", [kind, agent, seq])


def debts(connection: sqlite3.Connection, kind: Owed) -> list[Debt]:
    """Return what is owed of one kind, oldest first."""
    rows = connection.execute(
        "SELECT number, agent, seq FROM owed WHERE kind = ? ORDER BY number", [kind]
    )
    return [Debt(*row) for row in rows]


def paid(connection: sqlite3.Connection, done: list[Debt]) -> None:
    """Remove debts, inside a transaction."""
    connection.executemany("DELETE FROM owed WHERE number = ?", [[debt.number] for debt in done])
