"""Tells subscribed clients that the board or the memory changed."""

import logging

import anyio
from mcp.server.subscriptions import InMemorySubscriptionBus, ResourceUpdated

from kernelarc_mcp.host.errors import HostError
from kernelarc_mcp.host.host import Host
from kernelarc_mcp.resources import BOARD, MEMORY

log = logging.getLogger(__name__)
PERIOD = 1.0
"""Seconds between two looks: other server processes of the campaign change things too."""
SHOWN_ON = {
    "concluded": MEMORY,
    "registered": BOARD,
    "agent_added": BOARD,
    "submitted": BOARD,
    "settled": BOARD,
    "drafting": BOARD,
    "baselined": BOARD,
    "calibrated": BOARD,
    "spread_updated": BOARD,
    "suspected": BOARD,
    "remeasured": BOARD,
    "canary": BOARD,
    "extra_measured": BOARD,
    "quarantined": BOARD,
    "staked": BOARD,
    "used": BOARD,
}
"""Kind of an event -> the resource that shows it."""
SHOWN_NOWHERE = frozenset(
    {
        "created",
        "judging",
        "screened",
        "confirmed",
        "interrupted",
        "calibration_asked",
        "calibration_dropped",
        "profile_asked",
        "profile_done",
    }
)
"""Kinds of event that change no resource by themselves."""


class Changes:
    """Watches the ledger and publishes what moved."""

    def __init__(self, host: Host, bus: InMemorySubscriptionBus) -> None:
        """Start after the rows that are there already."""
        self._journal = host.campaign.journal
        self._bus = bus
        self._fault = ""
        with self._journal.reading() as state:
            self._seen = state.seq

    async def publish(self) -> None:
        """Publish what changed since the last time; called after what may have changed it.

        A campaign that cannot be read just now is said once, and looked at again later.
        """
        try:
            news = self._news()
        except HostError as fault:
            if str(fault) != self._fault:
                log.error("changes are not seen: %s", fault)
            self._fault = str(fault)
            return
        self._fault = ""
        for uri in sorted(news):
            await self._bus.publish(ResourceUpdated(uri=uri))

    async def watch(self) -> None:
        """Publish changes until cancelled."""
        while True:
            await anyio.sleep(PERIOD)
            await self.publish()

    def _news(self) -> set[str]:
        with self._journal.reading() as state:
            if state.seq == self._seen:
                return set()
            kinds = self._journal.ledger.connection.execute(
                "SELECT DISTINCT kind FROM event WHERE seq > ? AND seq <= ?",
                [self._seen, state.seq],
            ).fetchall()
            self._seen = state.seq
        return {SHOWN_ON[kind] for (kind,) in kinds if kind in SHOWN_ON}
