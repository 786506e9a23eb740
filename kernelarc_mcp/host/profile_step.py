"""One profile, as the ledger's rows have it."""

from dataclasses import dataclass

from kernelarc_guard.inquiries import Profiled


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
    detail: str = ""

    @property
    def device_ns(self) -> int:
        """Return how long the device was held for it."""
        lease = None if self.answer is None else self.answer.lease
        return 0 if lease is None else max(0, lease.to_ns - lease.from_ns)
