"""Editing a campaign's ledger by hand, as somebody would who wants another story told."""

import json
import sqlite3
from pathlib import Path

from kernelarc_mcp.host.events import GENESIS, Row
from kernelarc_mcp.host.ledger import FILE, Ledger


def rows_of(folder: Path) -> list[Row]:
    ledger = Ledger.open_read_only(folder)
    rows = ledger.rows_after(0)
    ledger.close()
    return rows


def edit(folder: Path, statement: str, *values: object) -> None:
    with sqlite3.connect(folder / FILE) as db:
        assert db.execute(statement, values).rowcount == 1
    db.close()


def row_of(folder: Path, kind: str, submission: str = "") -> Row:
    return next(
        row for row in rows_of(folder) if row.kind == kind and submission in ("", row.submission)
    )


def forge(folder: Path, seq: int, change: dict[str, object]) -> None:
    """Change a row's body and give it and all that follow it the hashes they then need."""
    previous = GENESIS
    with sqlite3.connect(folder / FILE) as db:
        for row in rows_of(folder):
            body = json.loads(row.body)
            if row.seq == seq:
                merge(body, change)
            text = json.dumps(body, separators=(",", ":"))
            new = Row(row.seq, row.at, row.kind, row.agent, row.submission, text, previous, "")
            previous = new.computed_hash()
            db.execute(
                "UPDATE event SET body = ?, prev_hash = ?, hash = ? WHERE seq = ?",
                [text, new.prev_hash, previous, row.seq],
            )
    db.close()


def merge(body: dict[str, object], change: dict[str, object]) -> None:
    for key, value in change.items():
        inner = body.get(key)
        if isinstance(value, dict) and isinstance(inner, dict):
            merge(inner, value)
        else:
            body[key] = value
