"""The tables of a memory file, as migrations."""

from kernelarc_memory.conclusion import microseconds
from kernelarc_memory.sqlite import Database, Migrations, Table

migrations = Migrations("kernelarc_memory")


@migrations()
def m001_conclusions(db: Database) -> None:
    conclusion = db["conclusion"]
    proof = db["proof"]
    assert isinstance(conclusion, Table) and isinstance(proof, Table)
    conclusion.create(
        {
            "id": int,
            "operator_class": str,
            "device": str,
            "kind": str,
            "digest": str,
            "summary": str,
            "lesson": str,
            "seen": int,
        },
        pk="id",
        not_null={"operator_class", "device", "kind", "digest", "summary", "lesson", "seen"},
    )
    conclusion.create_index(["operator_class", "device", "kind", "digest"], unique=True)
    proof.create(
        {
            "id": int,
            "conclusion": int,
            "campaign": str,
            "evidence": str,
            "agent": str,
            "lens": str,
            "verdict": str,
            "reason": str,
            "speedup": float,
            "at": str,
            "position": int,
        },
        pk="id",
        foreign_keys=[("conclusion", "conclusion", "id")],
        not_null={"conclusion", "campaign", "evidence", "agent", "verdict", "at", "position"},
    )
    proof.create_index(["conclusion", "campaign", "evidence"], unique=True)


@migrations()
def m002_what_decides_what_is_shown(db: Database) -> None:
    """Keep beside a conclusion what orders it, and how many there are, so that no reader counts."""
    for column in (
        "confirmed INTEGER NOT NULL DEFAULT 0",
        "latest_us INTEGER NOT NULL DEFAULT 0",
        "latest_campaign TEXT NOT NULL DEFAULT ''",
        "latest_position INTEGER NOT NULL DEFAULT 0",
    ):
        db.execute(f"ALTER TABLE conclusion ADD COLUMN {column}")
    proofs = db.execute(
        "SELECT conclusion, verdict, at, campaign, position FROM proof ORDER BY id"
    ).fetchall()
    for conclusion, verdict, at, campaign, position in proofs:
        db.execute(
            "UPDATE conclusion SET confirmed = max(confirmed, ?), latest_us = ?,"
            " latest_campaign = ?, latest_position = ? WHERE id = ?",
            [verdict == "KEEP", microseconds(at), campaign, position, conclusion],
        )
    db.execute(
        "CREATE INDEX conclusion_by_use ON conclusion"
        " (operator_class, device, kind, confirmed, latest_us, id)"
    )
    db.execute(
        "CREATE INDEX conclusion_by_campaign ON conclusion"
        " (operator_class, device, kind, latest_campaign, latest_position)"
    )
    db.execute(
        "CREATE TABLE tally ("
        " operator_class TEXT NOT NULL, device TEXT NOT NULL, kind TEXT NOT NULL,"
        " stored INTEGER NOT NULL, PRIMARY KEY (operator_class, device, kind))"
    )
    db.execute(
        "INSERT INTO tally SELECT operator_class, device, kind, count(*) FROM conclusion"
        " GROUP BY operator_class, device, kind"
    )


@migrations()
def m003_written_once(db: Database) -> None:
    """Remember the keys of what was written, so that writing it again changes nothing."""
    db.execute("CREATE TABLE written (key TEXT PRIMARY KEY, conclusion INTEGER NOT NULL)")


KNOWN = frozenset({"m001_conclusions", "m002_what_decides_what_is_shown", "m003_written_once"})
"""Migrations this version knows; a file with others was written by a newer one."""
