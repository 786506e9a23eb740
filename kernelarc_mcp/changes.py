"""Tells subscribed clients that the board or the memory changed."""

from typing import Any

import anyio
from mcp.server.subscriptions import InMemorySubscriptionBus, ResourceUpdated

from kernelarc_mcp.host.host import Host
from kernelarc_mcp.resources import BOARD, MEMORY

PERIOD = 1.0
"""Seconds between two looks: other server processes of the campaign change things too."""


class Changes:
    """Watches the ledger and publishes what moved."""

    def __init__(self, host: Host, bus: InMemorySubscriptionBus) -> None:
        self._host = host
        self._bus = bus
        self._seen: dict[str, Any] = self._look()

    def _look(self) -> dict[str, Any]:
        return {}

    async def publish(self) -> None:
        """Publish what changed since the last time; called after what may have changed it."""
        now = self._look()
        before, self._seen = self._seen, now
        for uri in (BOARD, MEMORY):
            if now.get(uri) != before.get(uri):
                await self._bus.publish(ResourceUpdated(uri=uri))

    async def watch(self) -> None:
        """Publish changes until cancelled."""
        while True:
            await anyio.sleep(PERIOD)
            await self.publish()
