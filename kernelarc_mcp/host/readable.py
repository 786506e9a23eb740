"""Opening a campaign to look at it, also where nobody may write: a copy, a backup's disk, another's folder."""

import shutil
import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path

from kernelarc_mcp.host.campaign import PROBLEM, Campaign, open_campaign
from kernelarc_mcp.host.errors import CampaignError, StorageFault
from kernelarc_mcp.host.ledger import FILE, Ledger
from kernelarc_mcp.host.shared_memory import FILE as MEMORY
from kernelarc_mcp.host.storage import storage_faults


@contextmanager
def readable(folder: Path) -> Iterator[Campaign]:
    """Yield the campaign in `folder` for reading; CampaignError where there is none.

    One that this user cannot write is looked at as it is now, in a temporary copy of its databases;
    `journal.ledger.folder` is where they are then, `folder` stays the campaign's own.
    """
    try:
        campaign = open_campaign(folder)
    except StorageFault:
        with tempfile.TemporaryDirectory(prefix="kernelarc-") as place:
            campaign = _copy(folder, Path(place) / folder.resolve().name)
            try:
                yield campaign
            finally:
                campaign.close()
        return
    try:
        yield campaign
    finally:
        campaign.close()


def _copy(folder: Path, place: Path) -> Campaign:
    place.mkdir()
    with storage_faults(folder):
        try:
            _copy_at_once(folder, place)
        except CampaignError:
            # SQLite reads no file with a log beside it where it may not write; a copy it does.
            for name in (FILE, f"{FILE}-wal"):
                if (folder / name).is_file():
                    shutil.copyfile(folder / name, place / name)
        for name in (MEMORY, f"{MEMORY}-wal"):
            if (folder / name).is_file():
                shutil.copyfile(folder / name, place / name)
        if (folder / PROBLEM).is_dir():
            shutil.copytree(folder / PROBLEM, place / PROBLEM)
    # One that shares a memory gets one of its own, which is filled from the ledger.
    (place / MEMORY).touch()
    return replace(open_campaign(place), folder=folder.resolve())


def _copy_at_once(folder: Path, place: Path) -> None:
    ledger = Ledger.open_read_only(folder)
    try:
        with closing(sqlite3.connect(place / FILE)) as copy:
            ledger.connection.backup(copy)
    finally:
        ledger.close()
