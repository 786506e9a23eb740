"""Building ahead: what is next in line is prepared while a guard is in the middle of something else.

Nothing is claimed, written or charged for it, and no answer comes: a judgement that finds nothing builds.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final, Protocol, runtime_checkable

import anyio

from kernelarc_guard.prepare import Prepare
from kernelarc_mcp.host.campaign import Campaign
from kernelarc_mcp.host.errors import CampaignError
from kernelarc_mcp.host.submit import solution_of

_POLL_SECONDS: Final = 0.2


@runtime_checkable
class Prepares(Protocol):
    """A guard, or a fleet of them, that can be sent what is to be built ahead."""

    @property
    def in_line(self) -> int:
        """Return how many of the submissions next in line are worth building now."""

    @property
    def busy(self) -> bool:
        """Say whether a request is under way: else the next in line is judged at once."""

    async def prepare(self, request: Prepare) -> bool:
        """Send a request beside the one that is under way; say whether it was sent."""


class Ahead:
    """Follows the queue, and has what is next in line built."""

    def __init__(self, campaign: Campaign, cache_dir: str) -> None:
        """Builds go into `cache_dir`, where judgements look for them."""
        self._campaign = campaign
        self._cache = cache_dir
        self._sent: set[str] = set()
        """Those of the submissions next in line that a guard was told of."""

    @asynccontextmanager
    async def beside(self, guard: object) -> AsyncIterator[None]:
        """Have a guard that can do it build ahead until the block is left."""
        if not isinstance(guard, Prepares):
            yield
            return
        group = anyio.create_task_group()
        await group.__aenter__()
        group.start_soon(self._follow, guard)
        try:
            yield
        finally:
            group.cancel_scope.cancel()
            # Without what ended the block: a group would wrap it.
            await group.__aexit__(None, None, None)

    async def _follow(self, guard: Prepares) -> None:
        while True:
            if guard.busy:
                for request in self._due(guard.in_line):
                    if await guard.prepare(request):
                        self._sent.add(request.id)
            await anyio.sleep(_POLL_SECONDS)

    def _due(self, most: int) -> list[Prepare]:
        """Return what of the first `most` in line was not sent."""
        try:
            with self._campaign.journal.reading() as state:
                line = [] if state.quarantined else state.queue()[:most]
                self._sent &= set(line)
                fresh = [(one, solution_of(self._campaign, state, one))
                         for one in line if one not in self._sent]  # fmt: skip
        except CampaignError:
            return []  # whoever claims meets it as well, and says so
        requests = self._campaign.requests(self._cache)
        due = []
        for ticket, solution in fresh:
            if solution.is_native or solution.may_use_triton:
                due.append(requests.prepare(ticket, solution))
            else:
                self._sent.add(ticket)  # it is built by being written down
        return due
