"""Faults of the disk and of the campaign's files, told so that a reader knows what is safe and what to do."""

import errno
import os
import pwd
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from kernelarc_mcp.host.errors import StorageFault
from kernelarc_mcp.host.write_lock import blocker_of

LEAST_FREE: Final = 64 << 20
"""Free bytes below which nothing new is judged: a build without room would look like a bad candidate."""
CAMPAIGN: Final = "campaign.db"
NOTHING_STORED: Final = "Nothing of this call was stored or charged"
AGAIN: Final = "call again with the same request_id: it is charged once, whatever came through"


@contextmanager
def storage_faults(folder: Path, file: str = CAMPAIGN) -> Iterator[None]:
    """Turn what the disk or a database of a campaign refuses into a StorageFault.

    Faults in a statement of ours stay what they are.
    """
    try:
        yield
    except sqlite3.Error as error:
        text = explained(folder, error, file)
        if not text:
            raise
        raise StorageFault(text) from error
    except OSError as error:
        text = explained_os(folder, error)
        if not text:
            raise
        raise StorageFault(text) from error


def explained(folder: Path, error: sqlite3.Error, file: str = CAMPAIGN) -> str:
    """Return what an error of SQLite means for the campaign; empty where it is not the disk's."""
    # The low byte is the kind; the others say more about it.
    kind = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR) & 0xFF
    name = getattr(error, "sqlite_errorname", "no code")
    match kind:
        case sqlite3.SQLITE_FULL:
            return full(folder)
        case sqlite3.SQLITE_READONLY | sqlite3.SQLITE_PERM | sqlite3.SQLITE_AUTH:
            return not_writable(folder)
        case sqlite3.SQLITE_CANTOPEN:
            return (
                not_writable(folder)
                if not os.access(folder, os.W_OK, effective_ids=True)
                else _failed(folder, name)
            )
        case sqlite3.SQLITE_CORRUPT | sqlite3.SQLITE_NOTADB:
            return damaged(folder, str(error), file)
        case sqlite3.SQLITE_IOERR:
            return full(folder) if _free(folder) == 0 else _failed(folder, name)
        case sqlite3.SQLITE_BUSY | sqlite3.SQLITE_LOCKED:
            who = blocker_of(folder / file)
            writes = f" ({who})" if who is not None else ""
            return (
                f"{folder}: another process kept the database to itself for too long{writes}."
                f" {NOTHING_STORED}; call again"
            )
    return ""


def explained_os(folder: Path, error: OSError) -> str:
    """Return what an error of the system means for the campaign; empty where it is not the disk's."""
    match error.errno:
        case errno.ENOSPC | errno.EDQUOT:
            return full(folder)
        case errno.EROFS | errno.EACCES | errno.EPERM:
            return not_writable(folder)
        case errno.EIO:
            return _failed(folder, "EIO")
        case errno.EFBIG:
            return f"{folder}: a file may not grow further (ulimit -f). {NOTHING_STORED}; {AGAIN}"
    return ""


def full(folder: Path) -> str:
    """Say that the disk is full."""
    return (
        f"{folder}: the disk is full ({_mebibytes(folder)} free). {NOTHING_STORED}; reading goes on."
        f" Free some space, then {AGAIN}"
    )


def not_writable(folder: Path) -> str:
    """Say that this user cannot write there, and whose it is."""
    return (
        f"{folder}: cannot be written by {_user(os.geteuid())} ({owner_of(folder)})."
        f" {NOTHING_STORED}; `status`, `report` and `verify` work. Serve it as its owner, or from a"
        " copy made with `kernelarc-mcp backup`"
    )


def damaged(folder: Path, what: str, file: str = CAMPAIGN) -> str:
    """Say that a database's file is damaged."""
    if file != CAMPAIGN:
        return (
            f"{folder / file}: the memory is damaged ({what}). Stop its servers, move the file away and"
            " start them again: what this campaign concluded is in its ledger and is written anew"
        )
    return (
        f"{folder}: campaign.db is damaged ({what}). {NOTHING_STORED}. Stop its servers, look with"
        f" `kernelarc-mcp doctor {folder}`, and go on from the newest backup:"
        " `kernelarc-mcp restore BACKUP NEW_DIR`"
    )


def short_of_room(folder: Path, least: int = LEAST_FREE) -> str:
    """Return why nothing should be judged with so little room on the disk, or an empty string."""
    free = _free(folder)
    if free is None or free >= least:
        return ""
    return (
        f"the disk of {folder} has {_mebibytes(folder)} free, and judging needs {least >> 20} MiB:"
        " free some space; it goes on by itself"
    )


def owner_of(folder: Path) -> str:
    """Return in words whose a directory is and how it may be used."""
    try:
        status = folder.stat()
        read_only = os.statvfs(folder).f_flag & os.ST_RDONLY
    except OSError as error:
        return error.strerror or type(error).__name__
    said = f"it belongs to {_user(status.st_uid)}, mode {status.st_mode & 0o7777:o}"
    return f"{said}, on a disk that is mounted read-only" if read_only else said


def _failed(folder: Path, name: str) -> str:
    return (
        f"{folder}: the disk failed ({name}). {NOTHING_STORED} as far as is known; the system's log"
        f" says more, `kernelarc-mcp doctor {folder}` looks for damage. Then {AGAIN}"
    )


def _free(folder: Path) -> int | None:
    with suppress(OSError):
        return shutil.disk_usage(folder).free
    return None


def _mebibytes(folder: Path) -> str:
    free = _free(folder)
    return "an unknown amount" if free is None else f"{free >> 20} MiB"


def _user(number: int) -> str:
    try:
        return pwd.getpwuid(number).pw_name
    except KeyError:
        return f"user {number}"
