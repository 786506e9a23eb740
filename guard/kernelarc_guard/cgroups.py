"""A control group of its own for a nursery, where one can be written: it binds root too.

Version 1 hierarchies and version 2. Standard library only.
"""

import os
import secrets
import time
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

_PREFIX: Final = "kernelarc-"
_REMOVE_SECONDS: Final = 2.0
_V2: Final = "pids", "memory"


@dataclass(frozen=True)
class _Mount:
    point: Path
    root: str
    controllers: frozenset[str]
    """Empty for version 2."""


class Cgroups:
    """The groups that hold one nursery; `pids` and `memory` say what they limit."""

    def __init__(self, tasks: int, memory_bytes: int) -> None:
        """Create what this machine allows; without permission it limits nothing."""
        self._folders: list[Path] = []
        _live.add(self)
        self.pids = self._limit("pids", ("pids.max",), ("pids.max",), tasks)
        self.memory = self._limit(
            "memory", ("memory.limit_in_bytes",), ("memory.max",), memory_bytes
        )

    def attach(self, pids: Iterable[int]) -> None:
        """Move processes in; what they start later follows. Raises OSError where that fails."""
        for pid in pids:
            for folder in self._folders:
                with suppress(ProcessLookupError):
                    (folder / "cgroup.procs").write_text(str(pid))

    def remove(self) -> None:
        """Remove the groups once their processes are gone."""
        limit = time.monotonic() + _REMOVE_SECONDS
        for folder in self._folders:
            while folder.is_dir():
                try:
                    folder.rmdir()
                except OSError:
                    if time.monotonic() > limit:
                        break
                    time.sleep(0.005)
        self._folders = []
        _live.discard(self)

    def _limit(
        self, controller: str, first: tuple[str, ...], second: tuple[str, ...], value: int
    ) -> bool:
        for mount in _mounts():
            if mount.controllers and controller not in mount.controllers:
                continue
            names = first if mount.controllers else second
            folder = self._create(mount, controller)
            if folder is None:
                continue
            try:
                for name in names:
                    (folder / name).write_text(str(value))
            except OSError:
                if folder not in self._folders:
                    with suppress(OSError):
                        folder.rmdir()
                continue
            if folder not in self._folders:
                self._folders.append(folder)
            return True
        return False

    def _create(self, mount: _Mount, controller: str) -> Path | None:
        for known in self._folders:
            if known.is_relative_to(mount.point):
                return known
        own = _own_group(mount, controller)
        if own is None or not os.access(own, os.W_OK):
            return None
        _remove_stale(own)
        folder = own / f"{_PREFIX}{os.getpid()}-{secrets.token_hex(4)}"
        try:
            folder.mkdir()
        except OSError:
            return None
        return folder


_live: set[Cgroups] = set()


def remove_all() -> None:
    """Remove every group of this process; what was in them is dead."""
    for groups in list(_live):
        groups.remove()


def _mounts() -> list[_Mount]:
    found = []
    with suppress(FileNotFoundError):
        for line in Path("/proc/self/mountinfo").read_text().splitlines():
            before, _, after = line.partition(" - ")
            fields, kind = before.split(), after.split()
            if kind[0] == "cgroup":
                found.append(_Mount(Path(fields[4]), fields[3], frozenset(kind[2].split(","))))
            elif kind[0] == "cgroup2":
                found.append(_Mount(Path(fields[4]), fields[3], frozenset()))
    return found


def _own_group(mount: _Mount, controller: str) -> Path | None:
    """Return this process's own group below a mount."""
    for line in Path("/proc/self/cgroup").read_text().splitlines():
        _, names, path = line.split(":", 2)
        fits = controller in names.split(",") if mount.controllers else not names
        if fits:
            relative = os.path.relpath(path, mount.root)
            return None if relative.startswith("..") else mount.point / relative
    return None


def _remove_stale(parent: Path) -> None:
    """Remove groups of guards that were killed; one with processes in it cannot be removed."""
    for folder in parent.glob(f"{_PREFIX}*-*"):
        pid = folder.name.removeprefix(_PREFIX).partition("-")[0]
        if pid.isdigit() and not Path("/proc", pid).exists():
            with suppress(OSError):
                folder.rmdir()
