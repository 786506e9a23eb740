"""The tables of a memory file, as migrations."""

from sqlite_utils import Database, Migrations
from sqlite_utils.db import Table

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
