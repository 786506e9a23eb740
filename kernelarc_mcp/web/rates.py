"""How many requests one holder may make: a bucket that fills at a steady rate."""

from collections.abc import Callable
from dataclasses import dataclass
from time import monotonic
from typing import Final

RATE: Final = 20.0
"""Requests per second that one holder may make for ever: twenty times what an agent needs."""
BURST_SECONDS: Final = 5.0
"""How many seconds' requests it may make at once after a pause, as clients do that connect again."""


@dataclass
class _Bucket:
    level: float
    at: float


class Rates:
    """One bucket for each holder; there are as many as there are valid tokens' holders."""

    def __init__(
        self,
        rate: float = RATE,
        burst: float = BURST_SECONDS * RATE,
        clock: Callable[[], float] = monotonic,
    ) -> None:
        self._rate = rate
        self._burst = max(burst, 1.0)
        self._clock = clock
        self._buckets: dict[str, _Bucket] = {}

    def wait(self, holder: str) -> float:
        """Take a request from the holder's bucket; return 0, or the seconds until there is one."""
        if self._rate <= 0:
            return 0.0
        now = self._clock()
        bucket = self._buckets.setdefault(holder, _Bucket(self._burst, now))
        bucket.level = min(self._burst, bucket.level + (now - bucket.at) * self._rate)
        bucket.at = now
        if bucket.level >= 1:
            bucket.level -= 1
            return 0.0
        return (1 - bucket.level) / self._rate
