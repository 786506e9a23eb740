"""A campaign in one file: one moment of its databases while servers run, its files, no build cache.

The memory is copied before the ledger and then brought up to it, so that the copy holds every conclusion
its rows tell of, and no other. A memory shared with other campaigns becomes the copy's own. Nothing in an
archive names a place outside of it: it is unpacked anywhere, on any machine.
"""

import shutil
import sqlite3
import tarfile
import tempfile
from contextlib import closing
from pathlib import Path
from typing import Final

from kernelarc_mcp.connecting.address import FILE as SERVED
from kernelarc_mcp.host.campaign import AGENTS, PROBLEM, open_campaign
from kernelarc_mcp.host.errors import CampaignError
from kernelarc_mcp.host.events import Created, read
from kernelarc_mcp.host.ledger import FILE, Ledger
from kernelarc_mcp.host.shared_memory import FILE as MEMORY
from kernelarc_mcp.host.shared_memory import follow_or_wait, memory_path
from kernelarc_mcp.host.storage import storage_faults
from kernelarc_mcp.host.verify import verify

_LEFT_OUT: Final = frozenset({"cache", SERVED, FILE, MEMORY})
"""What can be made again, where it is served, and the databases, which are copied by SQLite."""
_PASSING: Final = (".lock", "-wal", "-shm")
"""Ends of names of files that only running processes need."""


def backup(folder: Path, target: Path) -> int:
    """Write a campaign's archive to `target` while servers may run; return its size in bytes.

    CampaignError where `target` is there already, lies in the campaign, or where the copy does not
    verify: then nothing is left behind.
    """
    folder, target = folder.resolve(), target.absolute()
    if target.exists():
        raise CampaignError(f"{target}: is there already; name another file")
    if target.resolve().is_relative_to(folder):
        raise CampaignError(f"{target}: lies inside the campaign; name a file outside of it")
    if not target.parent.is_dir():
        raise CampaignError(f"{target.parent}: no such directory")
    Ledger.open_read_only(folder).close()
    partial = target.with_name(f".{target.name}.partial")
    with storage_faults(target.parent), tempfile.TemporaryDirectory(dir=target.parent) as place:
        copy = Path(place) / folder.name
        _copy(folder, copy)
        findings = verify(copy)
        if findings:
            raise CampaignError(f"{folder}: its copy does not verify: {findings[0]}")
        _strip(copy)
        try:
            with tarfile.open(partial, "w:gz") as archive:
                archive.add(copy, folder.name)
            partial.rename(target)
        finally:
            partial.unlink(missing_ok=True)
    return target.stat().st_size


def restore(source: Path, folder: Path) -> None:
    """Unpack a campaign's archive as `folder`; CampaignError where that is not possible or not sound."""
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise CampaignError(f"{folder}: not empty; a campaign needs a directory of its own")
    folder.parent.mkdir(parents=True, exist_ok=True)
    with storage_faults(folder.parent), tempfile.TemporaryDirectory(dir=folder.parent) as place:
        try:
            with tarfile.open(source) as archive:
                tops = {Path(name).parts[0] for name in archive.getnames()}
                if len(tops) != 1:
                    raise CampaignError(f"{source}: holds {len(tops)} folders; expected a campaign")
                archive.extractall(place, filter="data")
        except (tarfile.TarError, EOFError, FileNotFoundError) as error:
            raise CampaignError(f"{source}: no backup of a campaign: {error}") from error
        unpacked = Path(place) / tops.pop()
        findings = verify(unpacked)
        if findings:
            raise CampaignError(f"{source}: its campaign does not verify: {findings[0]}")
        unpacked.rename(folder)


def _copy(folder: Path, copy: Path) -> None:
    copy.mkdir()
    memory = _memory_of(folder)
    if memory.is_file():
        _copy_database(memory, copy / MEMORY)
    _copy_database(folder / FILE, copy / FILE)
    for path in sorted(folder.iterdir()):
        name = path.name
        if name in _LEFT_OUT or name.endswith(_PASSING) or path.is_symlink():
            continue
        if path.is_dir():
            _copy_tree(path, copy / name)
        else:
            _copy_file(path, copy / name)
    for needed in (PROBLEM, AGENTS):
        (copy / needed).mkdir(exist_ok=True)
    campaign = open_campaign(copy)
    try:
        if campaign.settings.memory and not (copy / MEMORY).is_file():
            (copy / MEMORY).touch()
        follow_or_wait(campaign)
    finally:
        campaign.close()


def _memory_of(folder: Path) -> Path:
    ledger = Ledger.open_read_only(folder)
    try:
        created = read(ledger.row(1)).body
    except (LookupError, ValueError) as error:
        raise CampaignError(f"{folder}: {FILE} holds no campaign: {error}") from error
    finally:
        ledger.close()
    assert isinstance(created, Created)
    return memory_path(folder, created.settings.memory)


def _copy_database(source: Path, target: Path) -> None:
    """Copy a database as it is in one moment, with what its log still holds."""
    with (
        closing(sqlite3.connect(f"{source.as_uri()}?mode=ro", uri=True)) as live,
        closing(sqlite3.connect(target)) as made,
    ):
        live.backup(made)


def _copy_tree(source: Path, target: Path) -> None:
    target.mkdir()
    for path in sorted(source.iterdir()):
        if path.is_symlink() or path.name.endswith(_PASSING):
            continue
        if path.is_dir():
            _copy_tree(path, target / path.name)
        elif path.is_file():
            _copy_file(path, target / path.name)


def _copy_file(source: Path, target: Path) -> None:
    try:
        shutil.copy2(source, target)
    except FileNotFoundError:
        pass  # an agent took its file away meanwhile: it is not in this moment's copy


def _strip(copy: Path) -> None:
    """Leave databases that need no file beside them, and nothing of the processes that looked."""
    for name in (FILE, MEMORY):
        path = copy / name
        if path.is_file():
            with closing(sqlite3.connect(path)) as made:
                made.execute("PRAGMA journal_mode=DELETE")
    for path in copy.glob("*"):
        if path.name.endswith(_PASSING):
            path.unlink()
