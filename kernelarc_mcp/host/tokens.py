"""Bearer tokens: shown once, kept as a hash, each for one holder in one role."""

import hashlib
import secrets
import sqlite3
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, Literal, get_args

Role = Literal["agent", "viewer", "admin"]
"""An agent takes part; a viewer reads what belongs to no one agent; an admin manages tokens too."""
ROLES: Final[tuple[Role, ...]] = get_args(Role)
_ID_LENGTH: Final = 12
"""Hex digits of the hash that name a token: too few to help anybody find it."""


@dataclass(frozen=True)
class Holder:
    """Whom a valid token belongs to."""

    name: str
    role: Role
    hash: str


@dataclass(frozen=True)
class TokenRow:
    """One token as it may be shown."""

    id: str
    name: str
    role: Role
    at: str
    revoked_at: str | None


def _hash(token: str) -> str:
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).hexdigest()


def issue(connection: sqlite3.Connection, name: str, at: str, role: Role = "agent") -> str:
    """Make a token for a holder and return it; only its hash is kept."""
    token = f"ka_{secrets.token_urlsafe(32)}"
    connection.execute(
        "INSERT INTO token (hash, agent, at, revoked_at, role) VALUES (?, ?, ?, NULL, ?)",
        [_hash(token), name, at, role],
    )
    return token


def revoke(connection: sqlite3.Connection, agent: str, at: str) -> int:
    """Revoke all tokens of an agent and return how many there were."""
    cursor = connection.execute(
        "UPDATE token SET revoked_at = ? WHERE agent = ? AND role = 'agent' AND revoked_at IS NULL",
        [at, agent],
    )
    return cursor.rowcount


def revoke_one(connection: sqlite3.Connection, token_id: str, at: str) -> bool:
    """Revoke the token with an id; False where there is none, or it is revoked already."""
    cursor = connection.execute(
        "UPDATE token SET revoked_at = ?"
        f" WHERE substr(hash, 1, {_ID_LENGTH}) = ? AND revoked_at IS NULL",
        [at, token_id],
    )
    return cursor.rowcount > 0


def holder_of(connection: sqlite3.Connection, token: str) -> Holder | None:
    """Return whom a token belongs to; None for an unknown or a revoked one."""
    digest = _hash(token)
    row = connection.execute(
        "SELECT agent, role FROM token WHERE hash = ? AND revoked_at IS NULL", [digest]
    ).fetchone()
    if row is None:
        return None
    role = next((known for known in ROLES if known == row[1]), None)
    # A role that a later version may know gives no right here.
    return None if role is None else Holder(str(row[0]), role, digest)


def agent_for(connection: sqlite3.Connection, token: str) -> str | None:
    """Return the agent a token belongs to; None for any other token."""
    holder = holder_of(connection, token)
    return holder.name if holder is not None and holder.role == "agent" else None


def still_valid(connection: sqlite3.Connection, hashes: Iterable[str]) -> set[str]:
    """Return those of the hashes whose tokens are not revoked."""
    asked = sorted(set(hashes))
    marks = ", ".join("?" * len(asked))
    rows = connection.execute(
        f"SELECT hash FROM token WHERE revoked_at IS NULL AND hash IN ({marks})", asked
    )
    return {str(row[0]) for row in rows}


def all_tokens(connection: sqlite3.Connection) -> list[TokenRow]:
    """Return every token that was issued, oldest first."""
    rows = connection.execute(
        f"SELECT substr(hash, 1, {_ID_LENGTH}), agent, role, at, revoked_at FROM token"
        " ORDER BY at, agent"
    )
    return [TokenRow(*row) for row in rows]
