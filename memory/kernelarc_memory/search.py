"""Finding in a memory file what `select` would choose, without reading all of it."""

import sqlite3
from datetime import datetime, timedelta
from typing import Final

from kernelarc_memory.conclusion import Kind, Proof, Stored, microseconds
from kernelarc_memory.retention import Retention

_HEAD: Final = "SELECT id FROM conclusion WHERE operator_class = ? AND device = ? AND kind = ?"
_AGED: Final = " AND latest_us >= ?"
_BY_USE: Final = " ORDER BY latest_us DESC, id DESC LIMIT ?"
_BATCH: Final = 500
"""Conclusions asked for in one statement: SQLite bounds how many values one may have."""


def candidates(
    connection: sqlite3.Connection,
    operator_class: str,
    device: str,
    kinds: list[Kind],
    retention: Retention,
    places: int,
    *,
    now: datetime,
    campaign: str,
    position: int | None,
) -> list[Stored]:
    """Return, of each kind, at least the `places` most useful conclusions inside the horizon.

    Some outside may be among them; `select` leaves them out.
    """
    oldest = _oldest(retention, now)
    last = None
    if retention.submissions is not None and position is not None:
        last = position - retention.submissions
    found: list[int] = []
    for kind in kinds:
        group = [operator_class, device, kind]
        sides: list[tuple[str, list[object]]] = [("", [])]
        if last is not None:
            sides = [(" AND latest_campaign = ? AND latest_position > ?", [campaign, last])]
            if _has_others(connection, group, campaign):
                sides.append((" AND latest_campaign <> ?", [campaign]))
        best: list[int] = []
        for confirmed in (1, 0):
            missing = places - len(best)
            for side, values in sides:
                where, given = f" AND confirmed = ?{side}", [confirmed, *values]
                best += _ids(connection, group, where, given, oldest, missing)
        found += best
    return _stored(connection, found, operator_class, device)


def stored_in_all(
    connection: sqlite3.Connection, operator_class: str, device: str, kinds: list[Kind]
) -> int:
    """Return how many conclusions of these kinds are kept."""
    rows = connection.execute(
        "SELECT kind, stored FROM tally WHERE operator_class = ? AND device = ?",
        [operator_class, device],
    )
    return sum(count for kind, count in rows if kind in kinds)


def _oldest(retention: Retention, now: datetime) -> int | None:
    if retention.hours is None:
        return None
    return microseconds((now - timedelta(hours=retention.hours)).isoformat())


def _ids(
    connection: sqlite3.Connection,
    group: list[str],
    condition: str,
    values: list[object],
    oldest: int | None,
    places: int,
) -> list[int]:
    aged, since = ("", []) if oldest is None else (_AGED, [oldest])
    rows = connection.execute(
        f"{_HEAD}{condition}{aged}{_BY_USE}", [*group, *values, *since, max(0, places)]
    )
    return [row[0] for row in rows]


def _has_others(connection: sqlite3.Connection, group: list[str], campaign: str) -> bool:
    return any(
        connection.execute(
            f"{_HEAD} AND latest_campaign {side} ? LIMIT 1", [*group, campaign]
        ).fetchone()
        for side in ("<", ">")
    )


def _stored(
    connection: sqlite3.Connection, ids: list[int], operator_class: str, device: str
) -> list[Stored]:
    """Read conclusions with their proofs."""
    found: list[Stored] = []
    for start in range(0, len(ids), _BATCH):
        batch = ids[start : start + _BATCH]
        marks = ", ".join("?" * len(batch))
        proofs: dict[int, list[Proof]] = {}
        for number, *fields in connection.execute(
            "SELECT conclusion, evidence, agent, lens, verdict, reason, speedup, campaign, at,"
            f" position FROM proof WHERE conclusion IN ({marks}) ORDER BY id",
            batch,
        ):
            names = Proof.__dataclass_fields__
            proofs.setdefault(number, []).append(Proof(**dict(zip(names, fields, strict=True))))
        found += [
            Stored(
                id=number,
                kind=kind,
                summary=summary,
                lesson=lesson,
                seen=seen,
                device=device,
                operator_class=operator_class,
                proofs=tuple(proofs[number]),
            )
            for number, kind, summary, lesson, seen in connection.execute(
                f"SELECT id, kind, summary, lesson, seen FROM conclusion WHERE id IN ({marks})",
                batch,
            )
        ]
    return found
