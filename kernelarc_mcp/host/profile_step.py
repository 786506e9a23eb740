"""One profile, as the ledger's rows have it."""

from dataclasses import dataclass

from kernelarc_guard.inquiries import Profiled
from kernelarc_guard.protocol import Lease


@dataclass(frozen=True)
class ProfileStep:
    """One profile of one submission on one workload."""

    ticket: str
    agent: str
    workload: str
    against: str
    tries: int = 1
    done: bool = False
    answer: Profiled | None = None
    lease: Lease | None = None
    """When the device was held for it, answered or not."""
    detail: str = ""

    @property
    def device_ns(self) -> int:
        """Return how long the device was held for it."""
        return 0 if self.lease is None else max(0, self.lease.to_ns - self.lease.from_ns)
