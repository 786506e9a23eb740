"""Rooms in which kernels are compiled ahead, the next one always ready; light.

To import torch and Triton takes seconds, several times as long as to compile a kernel. So a room is started
before there is a solution for it. Each is for one solution, and gone after it.
"""

import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Lock

from filelock import FileLock

from kernelarc_guard.ahead_room import Room
from kernelarc_guard.build import Limits
from kernelarc_guard.cache_limit import LOCKS, WORK


class Rooms:
    """The rooms of one process. A thread that took one must live on: what it started ends with it."""

    def __init__(self) -> None:
        """Start none yet."""
        self._token = secrets.token_hex(16)
        self._number = 0
        self._spare: tuple[Path, Room] | None = None
        self._lock = Lock()
        self._held: dict[Path, FileLock] = {}
        """Of each cache with folders of ours, until this process ends: then they are pruned."""

    @contextmanager
    def taken(self, cache_dir: Path, limits: Limits) -> Iterator[Room]:
        """Give a room, with files in `cache_dir`, to one solution, and start the next one meanwhile."""
        with self._lock:
            spare, self._spare = self._spare, None
            if spare is not None and (spare[0], spare[1].limits) != (cache_dir, limits):
                spare[1].close()
                spare = None
            room = self._new(cache_dir, limits) if spare is None else spare[1]
        try:
            with self._lock:
                if self._spare is None:
                    self._spare = cache_dir, self._new(cache_dir, limits)
            yield room
        finally:
            room.close()

    def close(self) -> None:
        """End the one that is ready."""
        with self._lock:
            if self._spare is not None:
                self._spare[1].close()
                self._spare = None
            for held in self._held.values():
                held.release()
            self._held.clear()

    def _new(self, cache_dir: Path, limits: Limits) -> Room:
        if cache_dir not in self._held:
            (cache_dir / LOCKS).mkdir(parents=True, exist_ok=True)
            held = FileLock(cache_dir / LOCKS / f"{self._token}.lock", thread_local=False)
            held.acquire()
            self._held[cache_dir] = held
        self._number += 1
        folder = cache_dir / f"{WORK}{self._token}-{self._number}"
        folder.mkdir(mode=0o700)
        return Room(folder, limits)
