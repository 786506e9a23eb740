"""What the tool for profiles answers."""

from typing import Literal

from kernelarc_guard.profile_model import Bottleneck
from kernelarc_mcp.views import Answer


class ProfileView(Answer):
    """One profile; the whole answer stays under 2,000 characters."""

    submission: str
    workload: str
    state: Literal["queued", "done", "failed"]
    bottleneck: Bottleneck | None
    """Null until it is done."""
    profile: str
    """What holds the call up, the most telling lines first; counters by the profiler's own clock."""
    device_seconds: float
    """What it was charged: how long the device was held for it. No attempt."""
    reports: list[str]
    """Raw reports kept below the campaign's `profiles/`."""
