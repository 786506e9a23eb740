"""Rows about profiles: asked for by an agent, answered by the guard, charged in device time."""

from typing import Literal

from pydantic import Field

from kernelarc_guard.inquiries import Profiled
from kernelarc_guard.model import Model
from kernelarc_guard.protocol import Lease


class ProfileAsked(Model):
    """An agent asked what holds one of its submissions up."""

    kind: Literal["profile_asked"] = "profile_asked"
    workload: str = Field(min_length=1)
    against: str
    """Whose machine code it is compared with; empty: nobody's."""


class ProfileDone(Model):
    """The guard answered, or could not."""

    kind: Literal["profile_done"] = "profile_done"
    workload: str = Field(min_length=1)
    answer: Profiled | None
    """None where the guard could not do it."""
    lease: Lease | None = None
    """When the device was held all the same; of a guard that died, by the dispatcher's clock."""
    machine: str
    """Boot of the machine whose clock its lease is on."""
    detail: str

    @property
    def held(self) -> Lease | None:
        """Return when the device was held for it, answered or not."""
        return self.lease if self.answer is None else self.answer.lease
