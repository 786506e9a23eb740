"""The guard's own folder of temporary files: one per process, gone with it. Standard library only."""

import fcntl
import os
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Final

from kernelarc_guard.scratch import remove

_PREFIX: Final = "kernelarc-guard-"


class GuardFolder:
    """A folder that a live guard holds locked; those of guards that were killed are removed."""

    def __init__(self) -> None:
        """Remove what earlier guards of this user left, then create this one's."""
        root = Path(tempfile.gettempdir())
        for old in root.glob(f"{_PREFIX}*"):
            with suppress(OSError):
                _remove_dead(old)
        while True:
            self.path = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=root))
            with suppress(FileNotFoundError):
                self._lock = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
                fcntl.flock(self._lock, fcntl.LOCK_EX)
                if self.path.is_dir():
                    break  # else another guard took it for one that was left, before it was locked

    def remove(self) -> None:
        """Remove the folder; its processes are gone."""
        remove(self.path)


def _remove_dead(folder: Path) -> None:
    if folder.is_symlink() or folder.stat().st_uid != os.geteuid():
        return
    lock = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        # Held by a live guard, this fails.
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        remove(folder)
    finally:
        os.close(lock)
