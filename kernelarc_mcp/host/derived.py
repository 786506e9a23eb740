"""The derived tables: what the state says, row by row, written with the events and compared later."""

import sqlite3
from collections.abc import Iterable, Sequence
from typing import Any, Final

from kernelarc_mcp.host.events import AgentAdded, Created, Remeasured
from kernelarc_mcp.host.state import CampaignState

OF_EVERYBODY: Final = (Created, AgentAdded, Remeasured)
"""Rows that change what is derived of agents they do not name: shares of the error budget, branches."""
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
            return [_agent(state, name) for name in state.agents]
        case "wealth":
            return list(state.wealth.items())
        case "record":
            return [
                (position, step.ticket, step.speedup, step.lower, step.withdrawn)
                for position, step in enumerate(state.records)
            ]
    raise ValueError(f"{table} is not derived")


def write_derived(
    connection: sqlite3.Connection,
    state: CampaignState,
    tickets: Iterable[str],
    agents: Sequence[str],
) -> None:
    """Bring the derived tables up to the state; of submissions and agents only those that were touched."""
    for ticket in tickets:
        _upsert(connection, "submission", [_submission(state, ticket)])
        _upsert(connection, "source", _sources(state, ticket))
    _upsert(connection, "agent", [_agent(state, name) for name in agents])
    if state.campaign.settings.pool:
        # Whoever submits takes from all.
        left = state.total - state.used
        connection.execute(
            "UPDATE agent SET attempts_left = ? WHERE attempts_left != ?", [left, left]
        )
    shares = dict.fromkeys(state.share_of(name) for name in agents)
    _upsert(connection, "wealth", [(share, state.wealth[share]) for share in shares])
    _upsert(connection, "record", derived_rows(state, "record"))


def _upsert(connection: sqlite3.Connection, table: str, rows: list[tuple[Any, ...]]) -> None:
    columns, _ = TABLES[table]
    marks = ", ".join("?" * len(columns))
    connection.executemany(
        f"INSERT OR REPLACE INTO {table} ({', '.join(columns)}) VALUES ({marks})", rows
    )


def _agent(state: CampaignState, name: str) -> tuple[Any, ...]:
    agent = state.agents[name]
    return (
        agent.name,
        agent.lens,
        agent.used,
        agent.r,
        agent.drafts,
        int(agent.drafting),
        int(agent.restoring),
        agent.branch,
        state.attempts_left(name),
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
