"""What a dispatcher needs of whoever judges: one guard, or a fleet of them behind one process."""

from types import TracebackType
from typing import Protocol, Self, runtime_checkable

import anyio

from kernelarc_guard.inquiries import Counted, Inquiry, Profiled
from kernelarc_guard.protocol import Request, Result
from kernelarc_mcp.host.guard_client import GuardClient, OnProgress


class Guard(Protocol):
    """Answers requests, and raises what is in `guard_client` where it cannot."""

    async def judge(
        self, request: Request, *, deadline: float, on_progress: OnProgress | None = None
    ) -> Result:
        """Return the result of one request; `deadline` is in seconds, without waits for a device."""

    async def inquire(
        self, inquiry: Inquiry, *, deadline: float, on_progress: OnProgress | None = None
    ) -> Counted | Profiled:
        """Ask something that decides nothing; otherwise as `judge`."""


class Executor(Guard, Protocol):
    """A guard that takes as many requests at once as it has lanes.

    An async context manager, entered anew each time its process is elected: leaving it ends what runs.
    """

    @property
    def lanes(self) -> int:
        """Return how many requests can be judged side by side now."""

    @property
    def trouble(self) -> str:
        """Return why there are no lanes, or no more of them; empty where nothing is amiss."""

    async def wait_lanes(self, known: int) -> int:
        """Return the number of lanes as soon as it is not `known`; start what is needed to know it.

        Raises GuardError where that cannot be; the next call tries again.
        """

    async def __aenter__(self) -> Self:
        """Return itself."""

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """End what runs."""


@runtime_checkable
class Described(Protocol):
    """An executor that has more to say than how many lanes it has."""

    @property
    def words(self) -> str:
        """Return what it has, in a line; empty where that is not known."""


class LocalExecutor(GuardClient):
    """One guard of this machine: one lane."""

    lanes = 1
    trouble = ""

    async def wait_lanes(self, known: int) -> int:
        """Return 1 at once where another number is known, else never: a guard starts when it is asked."""
        if known == 1:
            await anyio.sleep_forever()
        return 1
