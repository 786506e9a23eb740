"""The device lease: one measurement at a time on a device, whoever asks. Standard library and filelock.

The guard process itself holds it, so that the lock is free the moment the guard is gone.
"""

import os
import platform
import time
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self

from filelock import FileLock

from kernelarc_guard.protocol import Lease


def boot_id() -> str:
    """Return what is the same for all processes that share this machine's monotonic clock."""
    boot = Path("/proc/sys/kernel/random/boot_id")
    with suppress(OSError):
        return boot.read_text(encoding="ascii").strip()
    return platform.node()


def lock_dir() -> Path:
    """Return the machine's directory of device locks, writable by every user; create it if needed."""
    folders = [Path(root) / "kernelarc" for root in ("/run/lock", "/var/lock", "/tmp")]
    # One that is there comes first, whoever made it: users with other rights must meet in one.
    for folder in folders:
        if folder.is_dir() and not folder.is_symlink() and os.access(folder, os.W_OK | os.X_OK):
            return folder
    for folder in folders:
        if folder.parent.is_dir() and os.access(folder.parent, os.W_OK | os.X_OK):
            folder.mkdir(exist_ok=True)
            folder.chmod(0o1777)
            return folder
    raise OSError("no directory for device locks: /run/lock, /var/lock and /tmp are not writable")


class DeviceLease:
    """Hold a device for one comparison.

    Of those who wait one has the turn, and whoever held the device last has to wait for the turn first:
    so two campaigns take turns, and of several each is served as often as the others on average.
    """

    def __init__(self, device: str, lock: str = "") -> None:
        """Name the device, and its lock where that has another name; entering waits for it."""
        self._device = device
        self._unit = lock or device
        self._turn = FileLock(lock_dir() / f"turn-{self._unit}.lock", mode=0o666)
        self._lock = FileLock(lock_dir() / f"device-{self._unit}.lock", mode=0o666)
        self._from = 0
        self._to = 0

    def __enter__(self) -> Self:
        with self._turn:
            self._lock.acquire()
        self._from = time.monotonic_ns()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.ends()
        self._lock.release()

    def ends(self) -> None:
        """Note the end of the lease."""
        self._to = time.monotonic_ns()

    def describe(self) -> Lease:
        """Return when the device was held."""
        return Lease(
            device=self._device,
            from_ns=self._from,
            to_ns=self._to or self._from,
            machine=boot_id(),
            unit=self._unit,
        )
