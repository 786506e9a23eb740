"""Who holds the devices of this machine: the holders of the lock files, as Linux lists them."""

import os
from dataclasses import dataclass
from pathlib import Path

from kernelarc_mcp.host.other_processes import LOCKS, command_of, locks_on


@dataclass(frozen=True)
class Holder:
    """A process that holds a device."""

    device: str
    pid: int
    command: str
    """Its command line; empty where this user may not read it."""
    parent: str
    """The command line of what started it; empty likewise."""

    def __str__(self) -> str:
        named = f" ({self.command})" if self.command else ""
        started = f", started by {self.parent}" if self.parent else ""
        return f"{self.device} is held by process {self.pid}{named}{started}"


def holders(folder: Path, locks: Path = LOCKS) -> list[Holder]:
    """Return who holds the device locks of a folder; none where the system does not list locks.

    A holder in another process namespace is listed as process 0 there, and here too.
    """
    return [
        _holder(path.name.removeprefix("device-").removesuffix(".lock"), lock.pid)
        for path in sorted(folder.glob("device-*.lock"))
        for lock in locks_on(path, "FLOCK", locks)
    ]


def others(folder: Path) -> list[Holder]:
    """Return who holds the device locks of a folder, without what this process started.

    A guard says that it waits and may hold the lock before anybody reads that.
    """
    return [one for one in holders(folder) if not _ours(one.pid)]


def _ours(pid: int) -> bool:
    """Say whether a process is this one, or below it."""
    while pid not in (0, 1, os.getpid()):
        pid = _parent(pid)
    return pid == os.getpid()


def _holder(device: str, pid: int) -> Holder:
    return Holder(device, pid, command_of(pid), command_of(_parent(pid)))


def _parent(pid: int) -> int:
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return 0
    return next((int(one.split()[1]) for one in status.splitlines() if one[:5] == "PPid:"), 0)
