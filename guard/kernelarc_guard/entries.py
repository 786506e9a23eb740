"""Entries of a build cache: whole or absent, made here or handed over by who built them elsewhere; light.

What is handed over is trusted as any entry is: who has a way to the cache's host could build there.
Nothing of a solution runs here.
"""

import hashlib
import json
import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from filelock import FileLock, Timeout
from pydantic import TypeAdapter

from kernelarc_guard.cache_limit import LOCKS, WORK, prune_sometimes, remove_left_over, used
from kernelarc_guard.protocol import BuildMessage
from kernelarc_guard.recipes import BINARY, SOURCES, BuildFailed
from kernelarc_guard.solution import Solution

NATIVE: Final = "native"
MESSAGES: Final = "messages.json"
READ_MESSAGES: Final = TypeAdapter(list[BuildMessage])
HANDED: Final = "handed.json"
"""In an entry that was handed over: who built it, and the digest of what came."""
MOST_HANDED: Final = 32 << 20
"""Bytes of a binary that is handed over; what is larger is built where it is needed."""
_MOST_MESSAGES: Final = 1 << 20
_KEY: Final = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True)
class Artefact:
    """An entry with a native build on its way to another cache: all but the sources."""

    key: str
    """The entry's name: a digest of sources, command and compiler, so nobody who builds otherwise looks for it."""
    solution: str
    """Digest of what it was built of."""
    binary: bytes
    messages: bytes
    """What the compiler said, as JSON."""
    by: str
    """Who built it, for people."""
    sha256: str
    """Of all the above but `by`, in hex."""

    @property
    def size(self) -> int:
        """Return how many bytes it takes."""
        return len(self.binary) + len(self.messages)


def taken(cache_dir: Path, key: str, solution: str, by: str) -> Artefact:
    """Return an entry of a cache, to be handed over; `solution` is the digest of what was built.

    ValueError where it is larger than what is handed over, OSError where it is not there.
    """
    entry = cache_dir / NATIVE / key
    binary, messages = _read(entry / BINARY, MOST_HANDED), _read(entry / MESSAGES, _MOST_MESSAGES)
    return Artefact(key, solution, binary, messages, by, _digest(key, solution, binary, messages))


def put(cache_dir: Path, artefact: Artefact, solution: Solution) -> bool:
    """Make an entry of what was handed over; False where there is one, or where one is being built.

    ValueError where it is not what it says it is, damaged, too large or not of `solution`.
    """
    given = artefact
    if _KEY.fullmatch(given.key) is None or given.solution != solution.digest:
        raise ValueError(f"an artefact for another solution, or of no build: {given.key[:64]!r}")
    if len(given.binary) > MOST_HANDED or len(given.messages) > _MOST_MESSAGES:
        raise ValueError(f"{given.size} bytes are more than an artefact may have")
    if _digest(given.key, given.solution, given.binary, given.messages) != given.sha256:
        raise ValueError(f"the artefact {given.key} was damaged on its way")
    READ_MESSAGES.validate_json(given.messages)
    final = cache_dir / NATIVE / given.key
    locks = cache_dir / LOCKS
    locks.mkdir(parents=True, exist_ok=True)
    try:
        with FileLock(locks / f"{given.key}.lock", timeout=0):
            if (final / BINARY).is_file():
                return False
            with new_entry(cache_dir, final) as work:
                write_sources(work, solution)
                (work / BINARY).write_bytes(given.binary)
                (work / BINARY).chmod(0o755)
                (work / MESSAGES).write_bytes(given.messages)
                said = {"by": given.by, "sha256": given.sha256}
                (work / HANDED).write_text(json.dumps(said), encoding="utf-8")
            used(final)
    except Timeout:
        return False
    prune_sometimes(cache_dir)
    return True


@contextmanager
def new_entry(cache_dir: Path, final: Path) -> Iterator[Path]:
    """Give a folder that becomes the cache's entry as a whole, or not at all; under the entry's lock."""
    remove_left_over(cache_dir, final.name)
    with tempfile.TemporaryDirectory(prefix=f"{WORK}{final.name}-", dir=cache_dir) as temporary:
        work = Path(temporary) / "entry"
        work.mkdir()
        yield work
        final.parent.mkdir(exist_ok=True)
        if final.exists():
            shutil.rmtree(final)
        work.rename(final)


def write_sources(work: Path, solution: Solution) -> None:
    """Write a solution's files into an entry; raises BuildFailed where two of them cannot both be."""
    for source in solution.sources:
        path = work / SOURCES / source.path
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(source.content.encode())
        except (FileExistsError, IsADirectoryError, NotADirectoryError):
            raise BuildFailed(
                "build_failed", f"{source.path}: one path is both a file and a folder"
            ) from None


def _read(path: Path, most: int) -> bytes:
    """Return a file's bytes, not those of another that it points to."""
    with open(os.open(path, os.O_RDONLY | os.O_NOFOLLOW), "rb") as file:
        found = file.read(most + 1)
    if len(found) > most:
        raise ValueError(f"{path.name} has more than the {most} bytes that are handed over")
    return found


def _digest(key: str, solution: str, binary: bytes, messages: bytes) -> str:
    found = hashlib.sha256()
    for part in (key.encode(), solution.encode(), messages, binary):
        found.update(len(part).to_bytes(8) + part)
    return found.hexdigest()
