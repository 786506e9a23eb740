"""The derived tables: what the state says, row by row, written with the events and compared later."""

import sqlite3
from collections.abc import Iterable
from typing import Any, Final

from kernelarc_mcp.host.state import CampaignState

TABLES: Final[dict[str, tuple[tuple[str, ...], int]]] = {
    "submission": (
        (
            "ticket",
            "agent",
            "number",
            "state",
            "against",
            "verdict",
            "reason",
            "stage",
            "speedup",
            "lower",
            "lens",
            "episode",
            "summary",
            "last_seq",
        ),
        1,
    ),
    "source": (("ticket", "path", "digest", "size"), 2),
    "agent": (
        (
            "name",
            "lens",
            "used",
            "r",
            "drafts",
            "drafting",
            "restoring",
            "branch",
            "attempts_left",
        ),
        1,
    ),
    "wealth": (("share", "amount"), 1),
    "record": (("position", "ticket", "speedup", "lower", "withdrawn"), 1),
}
"""Table -> its columns and how many of them, from the left, are its key."""


def derived_rows(state: CampaignState, table: str) -> list[tuple[Any, ...]]:
    """Return the rows a derived table must have."""
    match table:
        case "submission":
            return [_submission(state, ticket) for ticket in state.attempts]
        case "source":
            return [row for ticket in state.attempts for row in _sources(state, ticket)]
        case "agent":
            return [
                (
                    a.name,
                    a.lens,
                    a.used,
                    a.r,
                    a.drafts,
                    int(a.drafting),
                    int(a.restoring),
                    a.branch,
                    state.attempts_left(a.name),
                )
                for a in state.agents.values()
            ]
        case "wealth":
            return list(state.wealth.items())
        case "record":
            return [
                (position, step.ticket, step.speedup, step.lower, step.withdrawn)
                for position, step in enumerate(state.records)
            ]
    raise ValueError(f"{table} is not derived")


def write_derived(
    connection: sqlite3.Connection, state: CampaignState, tickets: Iterable[str]
) -> None:
    """Bring the derived tables up to the state; of submissions only the touched ones."""
    for ticket in tickets:
        _upsert(connection, "submission", [_submission(state, ticket)])
        _upsert(connection, "source", _sources(state, ticket))
    for table in ("agent", "wealth", "record"):
        _upsert(connection, table, derived_rows(state, table))


def _upsert(connection: sqlite3.Connection, table: str, rows: list[tuple[Any, ...]]) -> None:
    columns, _ = TABLES[table]
    marks = ", ".join("?" * len(columns))
    connection.executemany(
        f"INSERT OR REPLACE INTO {table} ({', '.join(columns)}) VALUES ({marks})", rows
    )


def _submission(state: CampaignState, ticket: str) -> tuple[Any, ...]:
    attempt = state.attempts[ticket]
    return (
        attempt.ticket,
        attempt.agent,
        attempt.number,
        attempt.state,
        attempt.against,
        attempt.verdict,
        attempt.reason,
        attempt.stage,
        attempt.speedup,
        attempt.lower,
        attempt.lens,
        attempt.episode,
        attempt.proposal.summary,
        attempt.last_seq,
    )


def _sources(state: CampaignState, ticket: str) -> list[tuple[Any, ...]]:
    files = state.attempts[ticket].proposal.files
    return [(ticket, file.path, file.digest, file.size) for file in files]
