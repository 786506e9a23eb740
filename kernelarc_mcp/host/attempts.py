"""The submissions of a campaign by ticket and by request; those that have their verdict are kept small."""

import pickle
import sqlite3
import weakref
import zlib
from collections import OrderedDict
from collections.abc import Iterator, Mapping, ValuesView
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from kernelarc_mcp.host.state import Attempt

_RAW: Final = -zlib.MAX_WBITS
"""Compression without header and checksum: it never leaves this process."""
_TABLES: Final = 5
"""Size of compression's tables: 1 to 9, each twice the one before."""
_PATTERNS: Final = 64
"""Outcomes whose first submission becomes a pattern."""
_WINDOW: Final = 1 << 15
"""How far back compression looks, in bytes."""
_RECENT: Final = 256
"""Settled submissions that stay unpacked: branches, records and those that agents look at just now."""
_TABLE: Final = (
    "PRAGMA journal_mode = OFF",
    "CREATE TABLE attempt (place INTEGER PRIMARY KEY, ticket TEXT NOT NULL, agent TEXT NOT NULL,"
    " request TEXT NOT NULL, pattern INTEGER, packed BLOB)",
    "CREATE UNIQUE INDEX by_ticket ON attempt (ticket)",
    "CREATE UNIQUE INDEX by_request ON attempt (request, agent) WHERE request != ''",
    # Never ended: nobody else sees this database, and every statement would end one of its own.
    "BEGIN",
)


class Attempts(Mapping[str, "Attempt"]):
    """A mapping in the order of submission.

    A submission without verdict is one object. What is kept of a settled one is compressed, and a
    look makes an object of it that is soon forgotten: after changing that, `keep` it. All of it is in
    a database in memory, where tickets and requests take a fraction of what dictionaries of them would.
    """

    def __init__(self) -> None:
        """Start with none."""
        self._rows = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
        weakref.finalize(self, self._rows.close)
        for statement in _TABLE:
            self._rows.execute(statement)
        self._count = 0
        self._open: dict[str, Attempt] = {}
        """Those without a verdict."""
        self._recent: OrderedDict[str, Attempt] = OrderedDict()
        """Settled ones as they were unpacked, the one looked at last at the end."""
        self._patterns = [b""]
        """The first submission of each outcome, pickled: others of it are much like this."""
        self._outcomes: dict[tuple[str | None, str | None], int] = {}
        """Verdict and reason -> which pattern."""

    def add(self, attempt: "Attempt") -> None:
        """Add a new submission; ValueError where its ticket or its request was there before."""
        row = (attempt.ticket, attempt.agent, attempt.request_id)
        try:
            self._rows.execute("INSERT INTO attempt (ticket, agent, request) VALUES (?, ?, ?)", row)
        except sqlite3.IntegrityError as error:
            raise ValueError(f"{attempt.ticket}: there before, or its request was") from error
        self._count += 1
        self._open[attempt.ticket] = attempt

    def keep(self, attempt: "Attempt") -> None:
        """Keep a submission as it is now; compressed where it has its verdict."""
        if attempt.state != "done":
            self._open[attempt.ticket] = attempt
            return
        self._rows.execute(
            "UPDATE attempt SET pattern = ?, packed = ? WHERE ticket = ?",
            (*self._packed(attempt), attempt.ticket),
        )
        self._open.pop(attempt.ticket, None)
        self._recent.pop(attempt.ticket, None)

    def requested(self, agent: str, request_id: str) -> str | None:
        """Return the ticket of an agent's request; None where there was no such request, or it is empty."""
        # Said in the words of the index, without which SQLite would not use it.
        found = self._found(
            "ticket", "request = ? AND agent = ? AND request != ''", request_id, agent
        )
        return None if found is None else str(found[0])

    def __getitem__(self, ticket: str) -> "Attempt":
        attempt = self._open.get(ticket)
        if attempt is not None:
            return attempt
        if ticket in self._recent:
            self._recent.move_to_end(ticket)
            return self._recent[ticket]
        found = self._found("pattern, packed", "ticket = ?", ticket)
        if found is None:
            raise KeyError(ticket)
        attempt = self._recent[ticket] = self._unpacked(*found)
        if len(self._recent) > _RECENT:
            self._recent.popitem(last=False)
        return attempt

    def __contains__(self, ticket: object) -> bool:
        return isinstance(ticket, str) and self._found("1", "ticket = ?", ticket) is not None

    def __iter__(self) -> Iterator[str]:
        return (str(row[0]) for row in self._ordered("ticket", "ASC"))

    def __reversed__(self) -> Iterator[str]:
        return (str(row[0]) for row in self._ordered("ticket", "DESC"))

    def __len__(self) -> int:
        return self._count

    @property
    def size(self) -> int:
        """Return how many bytes the database in memory takes."""
        (size,) = self._rows.execute(
            "SELECT page_count * page_size FROM pragma_page_count, pragma_page_size"
        ).fetchone()
        return int(size)

    def values(self) -> "_Values":
        """Return the submissions, in order or reversed."""
        return _Values(self)

    def in_order(self, order: str) -> Iterator["Attempt"]:
        """Go through all of them, ASC or DESC."""
        for ticket, pattern, packed in self._ordered("ticket, pattern, packed", order):
            yield self._open[ticket] if packed is None else self._unpacked(pattern, packed)

    def _found(self, columns: str, where: str, *values: str) -> tuple[Any, ...] | None:
        try:
            row: tuple[Any, ...] | None = self._rows.execute(
                f"SELECT {columns} FROM attempt WHERE {where}", values
            ).fetchone()
        except UnicodeEncodeError:
            # Half a surrogate pair, which no row can hold.
            return None
        return row

    def _ordered(self, columns: str, order: str) -> sqlite3.Cursor:
        return self._rows.execute(f"SELECT {columns} FROM attempt ORDER BY place {order}")

    def _packed(self, attempt: "Attempt") -> tuple[int, bytes]:
        """Return which pattern was used, and what is left beside it."""
        plain = pickle.dumps(attempt, protocol=pickle.HIGHEST_PROTOCOL)
        outcome = attempt.verdict, attempt.reason
        if outcome not in self._outcomes and len(self._outcomes) < _PATTERNS:
            self._patterns.append(plain[-_WINDOW:])
            self._outcomes[outcome] = len(self._patterns) - 1
        pattern = self._outcomes.get(outcome, len(self._patterns) - 1)
        # Most of the time goes into the pattern and into tables that are larger than a submission.
        squeeze = zlib.compressobj(
            level=6, wbits=_RAW, memLevel=_TABLES, zdict=self._patterns[pattern]
        )
        return pattern, squeeze.compress(plain) + squeeze.flush()

    def _unpacked(self, pattern: int, packed: bytes) -> "Attempt":
        plain = zlib.decompressobj(_RAW, zdict=self._patterns[pattern]).decompress(packed)
        attempt: Attempt = pickle.loads(plain)
        return attempt


class _Values(ValuesView["Attempt"]):
    """All submissions; unlike those of other mappings they can be gone through backwards."""

    _mapping: Attempts

    def __iter__(self) -> Iterator["Attempt"]:
        return self._mapping.in_order("ASC")

    def __reversed__(self) -> Iterator["Attempt"]:
        return self._mapping.in_order("DESC")
