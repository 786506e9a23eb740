"""What Linux says of other processes: whether they run, are stopped or ended, and which locks they hold."""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

LOCKS: Final = Path("/proc/locks")
_STOPPED: Final = ("T", "t")
_ENDED: Final = ("Z", "X")
_SHOWN: Final = 120
"""Characters of a command line."""


@dataclass(frozen=True)
class Standing:
    """A process as the kernel sees it now."""

    state: str
    started: int
    """In the kernel's ticks since boot: numbers of processes come again."""

    @property
    def stopped(self) -> bool:
        """Say whether it is suspended: SIGSTOP, Ctrl-Z, a debugger."""
        return self.state in _STOPPED

    @property
    def ended(self) -> bool:
        """Say whether nothing of it runs any more."""
        return self.state in _ENDED


@dataclass(frozen=True)
class Lock:
    """A lock for writing on a file, or on some bytes of it."""

    kind: Literal["FLOCK", "POSIX"]
    pid: int
    """0 where it is in another process namespace."""
    device: tuple[int, int]
    inode: int
    first: int
    last: int | None
    """None: to the end of the file."""

    def covers(self, byte: int) -> bool:
        """Say whether a byte of the file is locked."""
        return self.first <= byte and (self.last is None or byte <= self.last)


def standing_of(pid: int) -> Standing | None:
    """Return how a process stands; None where there is none."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except (FileNotFoundError, ProcessLookupError):
        return None
    # The name, in brackets, may hold anything.
    fields = text.rpartition(")")[2].split()
    return Standing(fields[0], int(fields[19]))


def command_of(pid: int) -> str:
    """Return a process's command line, shortened; empty where this user may not read it."""
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except OSError:
        return ""
    # A program may be among the words, with its lines.
    text = " ".join(b" ".join(words).decode(errors="replace").split())
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 3]}..."


def locks_on(path: Path, kind: Literal["FLOCK", "POSIX"], locks: Path = LOCKS) -> list[Lock]:
    """Return who holds which lock for writing on a file; none where the system does not list locks.

    The file is never opened: closing it again would drop what SQLite holds on it in this process.
    """
    try:
        status = path.stat()
        listed = locks.read_text()
    except OSError:
        return []
    this = f":{status.st_ino} "
    # Asked before every write: most of the time none of the lines is about this file.
    lines = listed.splitlines() if this in listed else []
    device = os.major(status.st_dev), os.minor(status.st_dev)
    there = [lock for line in lines if this in line and (lock := _parsed(line)) is not None]
    there = [lock for lock in there if lock.kind == kind and lock.inode == status.st_ino]
    # Some file systems show another device in one place than in the other.
    return [lock for lock in there if lock.device == device or _has_open(lock.pid, status)]


def _parsed(line: str) -> Lock | None:
    # 1: FLOCK  ADVISORY  WRITE 17792 00:1c:4711 0 EOF; one that waits has "->" before its kind
    fields = line.split()
    if len(fields) < 8 or fields[1] not in ("FLOCK", "POSIX") or fields[3] != "WRITE":
        return None
    kind: Literal["FLOCK", "POSIX"] = "FLOCK" if fields[1] == "FLOCK" else "POSIX"
    major, minor, inode = fields[5].split(":")
    last = None if fields[7] == "EOF" else int(fields[7])
    device = int(major, 16), int(minor, 16)
    return Lock(kind, int(fields[4]), device, int(inode), int(fields[6]), last)


def _has_open(pid: int, status: os.stat_result) -> bool:
    try:
        descriptors = list(Path(f"/proc/{pid}/fd").iterdir())
    except OSError:
        return False
    for descriptor in descriptors:
        try:
            if os.path.samestat(descriptor.stat(), status):
                return True
        except OSError:
            continue
    return False
