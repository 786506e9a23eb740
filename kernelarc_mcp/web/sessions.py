"""Sessions of the handshake era: how many one holder may have, so that nobody takes all of them."""

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from time import monotonic
from typing import Final

EACH: Final = 32
"""Sessions of one holder; a client has one, and clients that crash leave theirs behind."""
ALL: Final = 4096
"""Sessions of all holders together."""
IDLE_SECONDS: Final = 1800.0
"""After so long without a request a session ends."""


class NoRoom(Exception):
    """All sessions the holder may have are in use."""


@dataclass
class _Session:
    used: float
    requests: int = 0


class Sessions:
    """Which sessions are open, by holder."""

    def __init__(self, each: int = EACH, clock: Callable[[], float] = monotonic) -> None:
        self._each = each
        self._clock = clock
        self._open: dict[str, dict[str, _Session]] = {}
        self._opening: Counter[str] = Counter()

    def __len__(self) -> int:
        return sum(map(len, self._open.values()))

    @contextmanager
    def opening(self, holder: str) -> Iterator[str]:
        """Keep a place for a session while it opens; yield which one must end first, or nothing.

        That is the holder's own that was idle longest; NoRoom where none is idle.
        """
        own = self._open.get(holder, {})
        self._forget_expired(own)
        old = ""
        if len(own) + self._opening[holder] >= self._each:
            idle = [name for name, session in own.items() if not session.requests]
            if not idle:
                raise NoRoom
            old = min(idle, key=lambda name: own[name].used)
            del own[old]
        self._opening[holder] += 1
        try:
            yield old
        finally:
            self._opening[holder] -= 1
            if not self._opening[holder]:
                del self._opening[holder]

    def opened(self, holder: str, session: str) -> None:
        """Take up a session."""
        self._open.setdefault(holder, {})[session] = _Session(self._clock())

    def ended(self, holder: str, session: str) -> None:
        """Forget a session."""
        self._open.get(holder, {}).pop(session, None)

    @contextmanager
    def using(self, holder: str, session: str) -> Iterator[None]:
        """Mark a session as in use; one that is not the holder's is nothing to us."""
        known = self._open.get(holder, {}).get(session)
        if known is None:
            yield
            return
        known.requests += 1
        try:
            yield
        finally:
            known.requests -= 1
            known.used = self._clock()

    def _forget_expired(self, own: dict[str, _Session]) -> None:
        oldest = self._clock() - IDLE_SECONDS
        for name in [n for n, s in own.items() if not s.requests and s.used < oldest]:
            del own[name]
