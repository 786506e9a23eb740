"""Who holds the devices of this machine: the holders of the lock files, as Linux lists them."""

import os
from dataclasses import dataclass
from pathlib import Path

_LOCKS = Path("/proc/locks")


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


def holders(folder: Path, locks: Path = _LOCKS) -> list[Holder]:
    """Return who holds the device locks of a folder; none where the system does not list locks.

    A holder in another process namespace is listed as process 0 there, and here too.
    """
    try:
        listed = locks.read_text().splitlines()
    except OSError:
        return []
    pids: dict[tuple[int, int, int], int] = {}
    for line in listed:
        # 1: FLOCK  ADVISORY  WRITE 17792 00:1c:4711 0 EOF; one that waits has "->" before its kind
        fields = line.split()
        if len(fields) < 6 or fields[1] != "FLOCK" or fields[3] != "WRITE":
            continue
        major, minor, inode = fields[5].split(":")
        pids[int(major, 16), int(minor, 16), int(inode)] = int(fields[4])
    found = []
    for path in sorted(folder.glob("device-*.lock")):
        try:
            status = path.stat()
        except FileNotFoundError:
            continue
        device = (os.major(status.st_dev), os.minor(status.st_dev), status.st_ino)
        if device in pids:
            name = path.name.removeprefix("device-").removesuffix(".lock")
            found.append(_holder(name, pids[device]))
    return found


def _holder(device: str, pid: int) -> Holder:
    return Holder(device, pid, _command(pid), _command(_parent(pid)))


def _command(pid: int) -> str:
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except OSError:
        return ""
    text = " ".join(word.decode(errors="replace") for word in words if word)
    return text if len(text) <= 120 else text[:117] + "..."


def _parent(pid: int) -> int:
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return 0
    return next((int(one.split()[1]) for one in status.splitlines() if one[:5] == "PPid:"), 0)
