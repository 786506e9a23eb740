"""The tables of a campaign's database, as migrations."""

from typing import Final

from kernelarc_memory.sqlite import Database, Migrations

migrations: Final = Migrations("kernelarc_campaign")


@migrations()
def m001_ledger(db: Database) -> None:
    """Create the ledger and what is derived from it."""
    db.conn.execute(
        "CREATE TABLE event ("
        " seq INTEGER PRIMARY KEY, at TEXT NOT NULL, kind TEXT NOT NULL, agent TEXT NOT NULL,"
        " submission TEXT NOT NULL, body TEXT NOT NULL, prev_hash TEXT NOT NULL,"
        " hash TEXT NOT NULL)"
    )
    db.conn.execute("CREATE TABLE blob (digest TEXT PRIMARY KEY, content BLOB NOT NULL)")
    db.conn.execute(
        "CREATE TABLE submission ("
        " ticket TEXT PRIMARY KEY, agent TEXT NOT NULL, number INTEGER NOT NULL,"
        " state TEXT NOT NULL, against TEXT NOT NULL, verdict TEXT, reason TEXT, stage TEXT,"
        " speedup REAL, lower REAL, lens TEXT NOT NULL, episode INTEGER NOT NULL,"
        " summary TEXT NOT NULL, last_seq INTEGER NOT NULL)"
    )
    db.conn.execute(
        "CREATE TABLE source ("
        " ticket TEXT NOT NULL, path TEXT NOT NULL, digest TEXT NOT NULL, size INTEGER NOT NULL,"
        " PRIMARY KEY (ticket, path))"
    )
    db.conn.execute(
        "CREATE TABLE agent ("
        " name TEXT PRIMARY KEY, lens TEXT NOT NULL, used INTEGER NOT NULL, r INTEGER NOT NULL,"
        " drafts INTEGER NOT NULL, drafting INTEGER NOT NULL, restoring INTEGER NOT NULL,"
        " branch TEXT NOT NULL, attempts_left INTEGER NOT NULL)"
    )
    db.conn.execute("CREATE TABLE wealth (share TEXT PRIMARY KEY, amount REAL NOT NULL)")
    db.conn.execute(
        "CREATE TABLE record ("
        " position INTEGER PRIMARY KEY, ticket TEXT NOT NULL, speedup REAL NOT NULL, lower REAL)"
    )


@migrations()
def m002_progress_and_tokens(db: Database) -> None:
    """Create what is no part of the ledger: signs of life, and who may connect."""
    db.conn.execute(
        "CREATE TABLE progress ("
        " ticket TEXT PRIMARY KEY, stage TEXT, percent INTEGER NOT NULL, message TEXT NOT NULL,"
        " revision INTEGER NOT NULL)"
    )
    db.conn.execute(
        "CREATE TABLE token ("
        " hash TEXT PRIMARY KEY, agent TEXT NOT NULL, at TEXT NOT NULL, revoked_at TEXT)"
    )


@migrations()
def m003_withdrawn_records(db: Database) -> None:
    """Let a record be withdrawn."""
    db.conn.execute("ALTER TABLE record ADD COLUMN withdrawn TEXT NOT NULL DEFAULT ''")


@migrations()
def m004_roles_of_tokens(db: Database) -> None:
    """Say what a token may do; those that were there are agents'."""
    db.conn.execute("ALTER TABLE token ADD COLUMN role TEXT NOT NULL DEFAULT 'agent'")


@migrations()
def m005_owed(db: Database) -> None:
    """Keep what a transaction leaves to be done outside of the database until it is done.

    From here on a row about a conclusion holds its text.
    """
    db.conn.execute(
        "CREATE TABLE owed ("
        " number INTEGER PRIMARY KEY, kind TEXT NOT NULL, agent TEXT NOT NULL, seq INTEGER NOT NULL)"
    )


KNOWN: Final = frozenset(
    {
        "m001_ledger",
        "m002_progress_and_tokens",
        "m003_withdrawn_records",
        "m004_roles_of_tokens",
        "m005_owed",
    }
)
"""Migrations this version knows; a database with others was written by a newer one."""
