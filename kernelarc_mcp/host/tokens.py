"""Bearer tokens: shown once, kept as a hash, each for one agent of one campaign."""

import hashlib
import secrets
import sqlite3


def _hash(token: str) -> str:
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).hexdigest()


def issue(connection: sqlite3.Connection, agent: str, at: str) -> str:
    """Make a token for an agent and return it; only its hash is kept."""
    token = f"ka_{secrets.token_urlsafe(32)}"
    connection.execute(
        "INSERT INTO token (hash, agent, at, revoked_at) VALUES (?, ?, ?, NULL)",
        [_hash(token), agent, at],
    )
    return token


def revoke(connection: sqlite3.Connection, agent: str, at: str) -> int:
    """Revoke all tokens of an agent and return how many there were."""
    cursor = connection.execute(
        "UPDATE token SET revoked_at = ? WHERE agent = ? AND revoked_at IS NULL", [at, agent]
    )
    return cursor.rowcount


def agent_for(connection: sqlite3.Connection, token: str) -> str | None:
    """Return the agent a token belongs to; None for an unknown or a revoked one."""
    row = connection.execute(
        "SELECT agent FROM token WHERE hash = ? AND revoked_at IS NULL", [_hash(token)]
    ).fetchone()
    return None if row is None else str(row[0])
