"""A clock that stands still while this process is stopped (SIGSTOP), as when others measure on its machine."""

import threading
import time
from typing import Final

_TICK: Final = 0.5
_GAP: Final = 3.0
"""Seconds between two ticks from which on the process was stopped and not only kept waiting."""


class OwnClock:
    """Seconds since it was made, without those of stops; exact to a tick."""

    def __init__(self) -> None:
        """Begin to count; a daemon thread ticks."""
        self._lock = threading.Lock()
        self._began = self._last = time.monotonic()
        self._stopped = 0.0
        self._stops = 0
        threading.Thread(target=self._tick, daemon=True).start()

    def now(self) -> float:
        """Return how many seconds it has counted."""
        with self._lock:
            self._look()
            return self._last - self._began - self._stopped

    @property
    def stopped(self) -> float:
        """Return how many seconds it was stopped."""
        self.now()
        return self._stopped

    @property
    def stops(self) -> int:
        """Return how often it was stopped."""
        self.now()
        return self._stops

    def _tick(self) -> None:
        while True:
            time.sleep(_TICK)
            self.now()

    def _look(self) -> None:
        now = time.monotonic()
        if now - self._last > _GAP:
            self._stopped += now - self._last
            self._stops += 1
        self._last = now
