"""What a guard has on the machine at one moment: processes, files, shared memory, its own memory."""

import os
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from kernelarc_guard.processes import descendants

CACHES: Final = frozenset({"locks", "native", "python"})
"""What a build cache may hold."""
_SETTLE_SECONDS: Final = 60.0


@dataclass(frozen=True)
class Snapshot:
    """What there is. Two of one guard at rest are equal but for `resident` and `descriptors`."""

    processes: tuple[str, ...]
    """Names of the processes below the guard."""
    files: tuple[str, ...]
    """Of the guard's own folder, without the numbers of its nurseries; logs by name only."""
    unexpected: tuple[str, ...]
    """Entries of the build cache that are no cache."""
    shared: tuple[str, ...]
    """Shared memory that has a name: files of /dev/shm, System V segments, POSIX queues."""
    descriptors: int
    """That the guard holds open."""
    resident: int
    """Bytes of memory that the guard's own process holds."""


def snapshot(pid: int, cache: Path) -> Snapshot:
    """Look at a guard whose spare nursery is up, or wait until it is."""
    limit = time.monotonic() + _SETTLE_SECONDS
    while (names := _names(pid)).count("python") < 2 and time.monotonic() < limit:
        time.sleep(0.1)
    return Snapshot(
        processes=tuple(names),
        files=tuple(_files(pid)),
        unexpected=tuple(sorted(one.name for one in cache.iterdir() if one.name not in CACHES)),
        shared=tuple(_shared()),
        descriptors=len(os.listdir(f"/proc/{pid}/fd")),
        resident=_resident(pid),
    )


def left_over(before: Snapshot, after: Snapshot) -> list[str]:
    """Return in words what is there now and was not before; memory is not compared."""
    said = []
    for field in ("processes", "files", "unexpected", "shared"):
        was, now = getattr(before, field), getattr(after, field)
        if was != now:
            said.append(f"{field}: {list(was)} before, {list(now)} now")
    # A nursery that was replaced and one that was not differ by none; buffers would be dozens.
    if after.descriptors > before.descriptors + 2:
        said.append(f"descriptors: {before.descriptors} before, {after.descriptors} now")
    return said


def _names(pid: int) -> list[str]:
    names = []
    for child in descendants(pid):
        with suppress(FileNotFoundError, ProcessLookupError):
            names.append(Path(f"/proc/{child}/comm").read_text().strip())
    return sorted(names)


def guard_folder(pid: int) -> Path:
    """Return the folder that a guard holds locked."""
    for fd in os.listdir(f"/proc/{pid}/fd"):
        with suppress(OSError):
            target = Path(os.readlink(f"/proc/{pid}/fd/{fd}"))
            if target.name.startswith("kernelarc-guard-") and target.is_dir():
                return target
    raise FileNotFoundError(f"process {pid} holds no folder of a guard")


def _files(pid: int) -> list[str]:
    folder, found = guard_folder(pid), []
    for path in folder.rglob("*"):
        parts = path.relative_to(folder).parts
        found.append("/".join("nursery" if p.startswith("nursery-") else p for p in parts))
    return sorted(found)


def _shared() -> list[str]:
    found = [f"/dev/shm/{name}" for name in os.listdir("/dev/shm")]
    for kind in ("shm", "sem", "msg"):
        with suppress(FileNotFoundError):
            lines = Path(f"/proc/sysvipc/{kind}").read_text().splitlines()[1:]
            found += [f"{kind} {line.split()[1]}" for line in lines]
    with suppress(OSError):
        found += [f"/dev/mqueue/{name}" for name in os.listdir("/dev/mqueue")]
    return sorted(found)


def _resident(pid: int) -> int:
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")
