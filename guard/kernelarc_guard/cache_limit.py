"""Keeping a build cache within bounds: the entries used least recently go, and what killed builds left."""

import os
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from filelock import FileLock, Timeout

from kernelarc_guard.scratch import remove

AHEAD: Final = "ahead"
KINDS: Final = ("native", "python", AHEAD)
LOCKS: Final = "locks"
WORK: Final = "work-"
"""Beginning of the name of a build's folder; the entry's key follows, then something random."""
MOST_BYTES: Final = 4 << 30
MOST_ENTRIES: Final = 2000
SPARED_SECONDS: Final = 6 * 3600.0
"""What was used since is not removed: a judgement copies from it, without holding its lock."""
_EVERY: Final = 32


@dataclass(frozen=True)
class _Entry:
    path: Path
    used: float
    size: int


def used(entry: Path) -> None:
    """Note that an entry is used now."""
    with suppress(FileNotFoundError):
        os.utime(entry)


def prune_sometimes(cache: Path) -> None:
    """Prune the cache, as a process that has just added to it does, once in so many entries."""
    if len(os.listdir(cache / LOCKS)) % _EVERY == 0:
        prune(cache, MOST_BYTES, MOST_ENTRIES, SPARED_SECONDS)


def prune(cache: Path, most_bytes: int, most_entries: int, spared_seconds: float) -> None:
    """Remove entries beyond the limits, the longest unused first, and what no build needs any more.

    An entry that a process is building, or that was used within the last `spared_seconds`, stays.
    """
    for left in cache.glob(f"{WORK}*-*"):
        with _free(cache, left.name.removeprefix(WORK).partition("-")[0]) as free:
            if free:
                remove(left)  # a solution's code may have run in it
    entries = sorted(_entries(cache), key=lambda entry: entry.used)
    count, held = len(entries), sum(entry.size for entry in entries)
    for entry in entries:
        if count <= most_entries and held <= most_bytes:
            break
        if time.time() - entry.used < spared_seconds:
            break
        with _free(cache, entry.path.name) as free:
            if free:
                shutil.rmtree(entry.path, ignore_errors=True)
                count, held = count - 1, held - entry.size
    for lock in (cache / LOCKS).glob("*.lock"):
        # Of a build that failed, or of an entry that is gone.
        if not any((cache / kind / lock.stem).exists() for kind in KINDS):
            with _free(cache, lock.stem) as free:
                if free:
                    lock.unlink(missing_ok=True)


def remove_left_over(cache: Path, key: str) -> None:
    """Remove what killed builds of an entry left; only while holding its lock."""
    for left in cache.glob(f"{WORK}{key}-*"):
        shutil.rmtree(left, ignore_errors=True)


@contextmanager
def _free(cache: Path, key: str) -> Iterator[bool]:
    """Hold an entry's lock if nobody does; say whether."""
    lock = FileLock(cache / LOCKS / f"{key}.lock")
    try:
        lock.acquire(blocking=False)
    except Timeout:
        yield False
        return
    try:
        yield True
    finally:
        lock.release()


def _entries(cache: Path) -> Iterator[_Entry]:
    for kind in KINDS:
        for path in (cache / kind).glob("*"):
            with suppress(FileNotFoundError):  # another guard prunes, too
                size = sum(one.lstat().st_size for one in path.rglob("*"))
                yield _Entry(path, path.stat().st_mtime, size)
