"""Answers that are computed once: for good where the campaign decides, else until the next row."""

import threading
from collections.abc import Callable, Hashable
from typing import Any, Final, TypeVar

T = TypeVar("T")
MOST: Final = 1000
"""Answers that are remembered of one row; more of them are forgotten together."""


class Memo:
    """What one process remembers of a campaign; its methods may be called from several threads."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._lasting: dict[Hashable, Any] = {}
        self._seq = 0
        self._newest: dict[Hashable, Any] = {}

    def lasting(self, key: Hashable, make: Callable[[], T]) -> T:
        """Return what `make` returned for this key first; it must depend on no row but the first."""
        with self._lock:
            if key not in self._lasting:
                self._lasting[key] = make()
            found: T = self._lasting[key]
            return found

    def at(self, seq: int, key: Hashable, make: Callable[[], T]) -> T:
        """Return what `make` returned for this key since row `seq` is the newest.

        Only for a state that is on disk: rows of a transaction that is undone never were.
        """
        with self._lock:
            if seq != self._seq or len(self._newest) >= MOST:
                self._seq, self._newest = seq, {}
            if key not in self._newest:
                self._newest[key] = make()
            found: T = self._newest[key]
            return found
