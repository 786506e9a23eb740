"""What `doctor DIR` says of a campaign's directory: each fault with what to do about it."""

import os
import shutil
import sqlite3
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final, Literal

from kernelarc_guard.model import Model
from kernelarc_guard.problem import ProblemError, read_problem
from kernelarc_mcp.host.campaign import AGENTS, PROBLEM
from kernelarc_mcp.host.election import holder_of
from kernelarc_mcp.host.errors import CampaignError
from kernelarc_mcp.host.events import Created, read
from kernelarc_mcp.host.ledger import FILE, Ledger, damages, missing_migrations
from kernelarc_mcp.host.shared_memory import memory_path
from kernelarc_mcp.host.storage import LEAST_FREE, owner_of
from kernelarc_mcp.host.verify import verify
from kernelarc_mcp.host.write_lock import stopped_writer

_AHEAD: Final = timedelta(minutes=5)
"""How far a row may lie in the future before the clock must have gone back."""
State = Literal["ok", "warning", "missing"]


class Finding(Model):
    """One line of the doctor's report."""

    name: str
    state: State
    detail: str


def examine_campaign(folder: Path) -> list[Finding]:
    """Return what is right and wrong with a campaign's directory; nothing in it is changed."""
    if not folder.is_dir():
        return [_directory(folder)]
    findings = [_directory(folder), _room(folder)]
    try:
        ledger = Ledger.open_read_only(folder)
    except CampaignError as error:
        return [*findings, _bad("database", str(error))]
    try:
        findings += [_database(folder, ledger), *_writer(folder, ledger), _problem(folder)]
        findings += [_memory(folder, ledger), _clock(ledger), _dispatcher(folder), _agents(folder)]
    except sqlite3.DatabaseError as error:
        return [*findings, _bad("database", f"cannot be read ({error}): {_FROM_BACKUP}")]
    finally:
        ledger.close()
    return [*findings, _verified(folder)]


_FROM_BACKUP: Final = (
    "stop its servers and go on from a backup: `kernelarc-mcp restore FILE NEW_DIR`"
)


def _bad(name: str, detail: str) -> Finding:
    return Finding(name=name, state="missing", detail=detail)


def _directory(folder: Path) -> Finding:
    if not folder.is_dir():
        return _bad("directory", f"{folder}: no such directory")
    fine = os.access(folder, os.W_OK | os.X_OK, effective_ids=True)
    said = f"{folder}: {owner_of(folder)}"
    more = "; not writable for this user: reading works, serve it as its owner or from a copy"
    return Finding(
        name="directory", state="ok" if fine else "missing", detail=said if fine else said + more
    )


def _room(folder: Path) -> Finding:
    try:
        free = shutil.disk_usage(folder).free
    except OSError as error:
        return _bad("disk", str(error))
    said = f"{free >> 20} MiB free"
    if free < LEAST_FREE:
        return _bad("disk", f"{said}; judging needs {LEAST_FREE >> 20} MiB: free some space")
    return Finding(name="disk", state="ok", detail=said)


def _database(folder: Path, ledger: Ledger) -> Finding:
    found = damages(ledger.connection)
    if found:
        return _bad("database", f"damaged pages ({found[0]}): {_FROM_BACKUP}")
    older = missing_migrations(ledger.connection)
    said = f"{ledger.last_seq()} rows, {(folder / FILE).stat().st_size >> 10} KiB"
    if older:
        more = f"of an older version; `status` brings it up to date ({', '.join(older)})"
        return Finding(name="database", state="warning", detail=f"{said}, {more}")
    return Finding(name="database", state="ok", detail=said)


def _writer(folder: Path, ledger: Ledger) -> list[Finding]:
    """Say who is stopped while it writes; nothing where nobody is, for a write takes a moment."""
    created = read(ledger.row(1)).body
    assert isinstance(created, Created)
    memory = memory_path(folder, created.settings.memory)
    return [
        _bad("writing", f"{database.name}: {blocker}")
        for database in (folder / FILE, memory)
        if (blocker := stopped_writer(database)) is not None
    ]


def _problem(folder: Path) -> Finding:
    try:
        name = read_problem(folder / PROBLEM).definition.name
    except ProblemError as error:
        return _bad("problem", f"{error}: put {PROBLEM}/ back from a backup")
    return Finding(name="problem", state="ok", detail=name)


def _memory(folder: Path, ledger: Ledger) -> Finding:
    created = read(ledger.row(1)).body
    assert isinstance(created, Created)
    path = memory_path(folder, created.settings.memory)
    said = str(path)
    if path.is_file():
        return Finding(name="memory", state="ok", detail=said)
    if path.parent == folder:
        more = "not there; it is written from the ledger when an agent first reads it"
        return Finding(name="memory", state="ok", detail=f"{said}: {more}")
    return _bad("memory", f"{said}: not there; mount what it is on, or make its directory")


def _clock(ledger: Ledger) -> Finding:
    last = ledger.row(ledger.last_seq())
    ahead = datetime.fromisoformat(last.at) - datetime.now(UTC)
    if ahead > _AHEAD:
        detail = (
            f"the newest row lies {ahead.total_seconds():.0f} s in the future: the clock went back."
            " No verdict depends on it; limits in seconds count by the clock as it is"
        )
        return Finding(name="clock", state="warning", detail=detail)
    return Finding(name="clock", state="ok", detail=f"newest row of {last.at}")


def _dispatcher(folder: Path) -> Finding:
    holder = holder_of(folder)
    if holder is None:
        return Finding(name="dispatcher", state="ok", detail="none was elected yet")
    if holder.suspended:
        detail = (
            f"process {holder.process} is stopped: another server takes over, or `kill -CONT"
            f" {holder.process}` lets it go on"
        )
        return Finding(name="dispatcher", state="warning", detail=detail)
    return Finding(name="dispatcher", state="ok", detail=f"last was process {holder.process}")


def _agents(folder: Path) -> Finding:
    places = folder / AGENTS
    if not places.is_dir():
        return Finding(
            name="workspaces",
            state="warning",
            detail=f"{places}: not there; each is made again at its agent's next get_brief",
        )
    names = ", ".join(sorted(path.name for path in places.iterdir() if path.is_dir()))
    return Finding(name="workspaces", state="ok", detail=names or "none yet")


def _verified(folder: Path) -> Finding:
    found = verify(folder)
    if found:
        more = f" and {len(found) - 1} more" if len(found) > 1 else ""
        return _bad("verify", f"{found[0]}{more}: `kernelarc-mcp verify {folder}` lists them")
    return Finding(name="verify", state="ok", detail="every counter and verdict recomputed")
