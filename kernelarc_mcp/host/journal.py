"""A ledger with the state that follows from it: every decision is taken on the newest rows."""

import logging
import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Final

from kernelarc_mcp.host.derived import OF_EVERYBODY, write_derived
from kernelarc_mcp.host.errors import LedgerBroken
from kernelarc_mcp.host.events import Body, Remeasured, Settled, Suspected, read, seal
from kernelarc_mcp.host.ledger import Ledger
from kernelarc_mcp.host.owed import Owed, owe
from kernelarc_mcp.host.record_words import doubt_line
from kernelarc_mcp.host.replay import Inconsistent, apply
from kernelarc_mcp.host.state import CampaignState
from kernelarc_mcp.host.storage import storage_faults
from kernelarc_mcp.host.verdict_line import verdict_fields, verdict_line

VERDICTS: Final = "verdicts"
"""Name, below the package's, of the logger that is told each verdict once it is on disk."""
_VERDICTS: Final = logging.getLogger("kernelarc_mcp").getChild(VERDICTS)
_LOG: Final = logging.getLogger(__name__)
_PAGE: Final = 500
"""Rows that are read at a time."""
Clock = Callable[[], datetime]


def utc_now() -> datetime:
    """Return the time, with its offset."""
    return datetime.now(UTC)


class Writer:
    """One writing transaction: rows are appended and applied one by one."""

    def __init__(self, ledger: Ledger, state: CampaignState, at: str) -> None:
        self.state = state
        self.at = at
        self.begun = False
        """Whether the state may hold what is not on disk."""
        self._ledger = ledger
        self._touched: set[str] = set()
        self._agents: set[str] = set()
        self._everybody = False
        """A row may have changed what is derived of agents that it does not name."""
        self._settled: list[tuple[str, dict[str, object]]] = []
        self._doubts: list[str] = []

    def append(self, body: Body, agent: str = "", submission: str = "") -> None:
        """Append one event; raise Inconsistent where it cannot follow the rows before it."""
        self.begun = True
        row = seal(self.state.seq + 1, self.at, agent, submission, body, self.state.head)
        apply(self.state, read(row))
        self._ledger.append(row)
        if submission:
            self._touched.add(submission)
        if agent:
            self._agents.add(agent)
        self._everybody |= isinstance(body, OF_EVERYBODY)
        if isinstance(body, Settled):
            attempt = self.state.attempts[submission]
            self._settled.append((verdict_line(attempt), verdict_fields(attempt)))
        if isinstance(body, Suspected | Remeasured) and (line := doubt_line(self.state, body)):
            self._doubts.append(line)

    def store_blob(self, digest: str, content: bytes) -> None:
        """Keep the bytes of a source file under their digest."""
        self._ledger.store_blob(digest, content)

    def owe(self, kind: Owed, agent: str) -> None:
        """Note, with the rows of this transaction, what has to be done outside of the database."""
        owe(self._ledger.connection, kind, agent, self.state.seq)

    def finish(self) -> None:
        """Bring the derived tables up to the rows that were appended."""
        agents = list(self.state.agents) if self._everybody else sorted(self._agents)
        write_derived(self._ledger.connection, self.state, sorted(self._touched), agents)

    def tell_log(self) -> None:
        """Tell the log of the verdicts, and of doubted records, that are on disk now."""
        for line in self._doubts:
            _LOG.warning(line)
        for line, fields in self._settled:
            _VERDICTS.info(line, extra={"fields": fields})


class Journal:
    """One process's view of a campaign; its methods may be called from several threads."""

    def __init__(self, ledger: Ledger, clock: Clock = utc_now) -> None:
        self.ledger = ledger
        self._clock = clock
        self._state = CampaignState()
        self._changed = ""
        """How rows that were read are others now; empty while they are not."""
        self._lock = threading.RLock()

    def now(self) -> str:
        """Return the time in ISO 8601."""
        return self._clock().isoformat(timespec="microseconds")

    @contextmanager
    def writing(self) -> Iterator[Writer]:
        """Decide and write on the newest rows, alone; an exception leaves nothing behind."""
        with self._lock, storage_faults(self.ledger.folder):
            writer: Writer | None = None
            looked = False
            try:
                with self.ledger.transaction():
                    looked = True
                    self._expect_own_rows()
                    writer = Writer(self.ledger, self._catch_up(), self.now())
                    before = writer.state.seq
                    yield writer
                    if writer.state.seq > before:
                        writer.finish()
            except BaseException:
                if (looked and writer is None) or (writer is not None and writer.begun):
                    # What was applied is not on disk: start again from the rows.
                    self._state = CampaignState()
                raise
            writer.tell_log()

    @contextmanager
    def reading(self) -> Iterator[CampaignState]:
        """Look at the newest rows; the state must not be kept."""
        with self._lock, storage_faults(self.ledger.folder):
            yield self._catch_up()

    @contextmanager
    def alone(self) -> Iterator[sqlite3.Connection]:
        """Write to what is no part of the ledger, in a transaction of its own."""
        with self._lock, storage_faults(self.ledger.folder), self.ledger.transaction():
            yield self.ledger.connection

    def _expect_own_rows(self) -> None:
        """Refuse to append, now and later, where rows that were there are not: somebody changed them."""
        state = self._state
        if state.seq and not self._changed and self.ledger.hash_of(state.seq) != state.head:
            self._changed = f"event row {state.seq} is not the one that was there before"
        if self._changed:
            raise self._broken(self._changed)

    def _catch_up(self) -> CampaignState:
        # Page by page: a long ledger is not held in memory to be read.
        while rows := self.ledger.rows_after(self._state.seq, _PAGE):
            for row in rows:
                if row.prev_hash != self._state.head:
                    raise self._broken(f"event row {row.seq} does not follow row {self._state.seq}")
                try:
                    apply(self._state, read(row))
                except (Inconsistent, ValueError) as error:
                    raise self._broken(str(error)) from error
            if len(rows) < _PAGE:
                break
        return self._state

    def _broken(self, what: str) -> LedgerBroken:
        self._state = CampaignState()
        return LedgerBroken(f"the ledger is broken: {what}; run `kernelarc-mcp verify`")
