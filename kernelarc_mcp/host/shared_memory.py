"""The memory of a campaign: what its rows say was concluded, brought there exactly once.

The ledger is written first and holds every text; the memory follows it, under the hash of the row. A
process that is killed in between, or a memory that is lost, costs nothing: whoever looks next writes what
is missing.
"""

import logging
import threading
from functools import lru_cache
from pathlib import Path
from typing import Final

from kernelarc_mcp.host.campaign import Campaign
from kernelarc_mcp.host.errors import CampaignError, StorageFault
from kernelarc_mcp.host.events import Concluded, Event, read
from kernelarc_mcp.host.state import CampaignState
from kernelarc_mcp.host.storage import storage_faults
from kernelarc_memory import MemoryStore, NewConclusion, NewerMemory, Written

log = logging.getLogger(__name__)

FILE: Final = "memory.db"


class Shelf:
    """One process's access to one campaign's memory."""

    def __init__(self, path: Path) -> None:
        """Open the memory at `path`, or create it; CampaignError where it cannot be used."""
        self.path = path
        self._lock = threading.Lock()
        self._store: MemoryStore | None = None
        self._file: tuple[int, int] | None = None
        self._told = 0
        """Conclusions up to this row are in the memory."""

    def store(self) -> MemoryStore:
        """Return the memory; a file that was removed or replaced is opened anew and filled again."""
        with storage_faults(self.path.parent, self.path.name):
            found = _identity(self.path)
            if self._store is None or found is None or found != self._file:
                self._told = 0
                try:
                    self._store = MemoryStore(self.path)
                except NewerMemory as error:
                    raise CampaignError(str(error)) from error
                self._file = _identity(self.path)
            return self._store

    def follow(self, campaign: Campaign) -> dict[str, Written]:
        """Write what the ledger holds and the memory does not; return it by the hash of its row.

        StorageFault where the memory cannot be written; then nothing is lost, and later is early enough.
        """
        with self._lock:
            store = self.store()
            events, position = _new_conclusions(campaign, self._told)
            with storage_faults(self.path.parent, self.path.name):
                known = store.keys() if len(events) > 1 else set()
                new = [(event.hash, told) for event, told in events if event.hash not in known]
                keys = [key for key, _ in new]
                made = store.write_all([told for _, told in new], keys) if new else []
            self._told = position
            return dict(zip(keys, made, strict=True))

    def find(self, key: str) -> Written:
        """Return what is in the memory under the hash of a row; LookupError where nothing is."""
        with storage_faults(self.path.parent, self.path.name):
            return self.store().find(key)


def memory_path(folder: Path, shared: str) -> Path:
    """Return where a campaign's memory is: its own file, else the one it shares with others.

    A campaign that shares a memory has no file of its own, unless it was copied: a copy takes its
    memory along, and nothing it concludes gets into the others'.
    """
    own = folder / FILE
    return Path(shared) if shared and not own.is_file() else own


def shelf_of(campaign: Campaign) -> Shelf:
    """Return this process's access to a campaign's memory."""
    # Beside the ledger, which is elsewhere where a campaign that cannot be written is looked at.
    folder = campaign.journal.ledger.folder.resolve()
    return _shelf(memory_path(folder, campaign.settings.memory), folder)


def follow_or_wait(campaign: Campaign) -> Shelf:
    """Bring the memory up to the ledger where that is possible now, and return it for reading."""
    shelf = shelf_of(campaign)
    try:
        shelf.follow(campaign)
    except StorageFault as fault:
        log.warning("conclusions wait for the memory: %s", fault)
    return shelf


def conclusion_of(state: CampaignState, agent: str, at: str, body: Concluded) -> NewConclusion:
    """Return a conclusion as the memory keeps it: the agent's words beside what was measured."""
    attempt = state.attempts[body.evidence]
    settings = state.campaign.settings
    return NewConclusion(
        kind=body.conclusion_kind,
        summary=body.summary,
        lesson=body.lesson,
        evidence=body.evidence,
        agent=agent,
        lens=attempt.lens,
        verdict=attempt.verdict or "",
        reason=attempt.reason or "",
        speedup=attempt.speedup,
        device=settings.device,
        operator_class=state.campaign.operator_class,
        campaign=settings.name,
        at=at,
        position=body.position,
    )


@lru_cache(maxsize=16)
def _shelf(path: Path, _folder: Path) -> Shelf:
    return Shelf(path)


def _new_conclusions(
    campaign: Campaign, told: int
) -> tuple[list[tuple[Event, NewConclusion]], int]:
    """Return the conclusions after row `told`, oldest first, and the newest row."""
    with campaign.journal.reading() as state:
        # Another campaign in the place of the one that was there starts at its first row.
        told = told if told <= state.seq else 0
        seqs: list[int] = []
        for seq in reversed(state.concluded.values()):
            if seq <= told:
                break
            seqs.append(seq)
        found = []
        for seq in reversed(seqs):
            event = read(campaign.journal.ledger.row(seq))
            assert isinstance(event.body, Concluded)
            found.append((event, conclusion_of(state, event.agent, event.at, event.body)))
        return found, state.seq


def _identity(path: Path) -> tuple[int, int] | None:
    try:
        status = path.stat()
    except FileNotFoundError:
        return None
    return status.st_dev, status.st_ino
