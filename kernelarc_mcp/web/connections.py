"""Open connections: a bounded number, and none that waits long for its request to be complete."""

import asyncio
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final, cast

from uvicorn.protocols.http.h11_impl import H11Protocol

from kernelarc_mcp.web.tallies import Tallies

MOST: Final = 1000
"""Connections open at once, where the process may have twice as many descriptors."""
_BACKLOG: Final = 128

Client = tuple[str, int]


class Connections:
    """Knows which connections wait for a request, and ends those that wait for long or are too many.

    Where there are too many, the one that waits longest makes room: a client that sends its
    request at once is served even while others only hold connections open.
    """

    def __init__(self, tallies: Tallies, head_seconds: float, most: int | None = None) -> None:
        """Allow `head_seconds` for a request's head; without `most`, half the process's descriptors."""
        self._tallies = tallies
        self._seconds = head_seconds
        descriptors = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        self._most = most or min(MOST, descriptors // 2)
        self.backlog = max(8, min(_BACKLOG, descriptors // 8))
        """Connections to accept in one go: they take descriptors before they can be counted here.

        Where none is left asyncio accepts nothing for seconds.
        """
        self._open: dict[Client, _Watched] = {}
        # In the order in which they began to wait; strangers make room first.
        self._strangers: dict[Client, None] = {}
        self._known: dict[Client, None] = {}

    def __len__(self) -> int:
        return len(self._open)

    @contextmanager
    def serving(self, client: Client | None) -> Iterator["Serving"]:
        """Hold a connection open while its request is served."""
        serving = Serving()
        watched = None if client is None else self._open.get(client)
        if client is not None and watched is not None:
            watched.requests += 1
            self._stop_waiting(client, watched)
        try:
            yield serving
        finally:
            # An address may be another connection's by now.
            if client is not None and watched is not None and self._open.get(client) is watched:
                watched.requests -= 1
                watched.known = watched.known or serving.known
                if not watched.requests:
                    self._wait(client, watched)

    def admit(self, client: Client, transport: asyncio.Transport) -> bool:
        """Take up a new connection; False where it must be closed for want of room."""
        if len(self._open) >= self._most:
            waiting = self._strangers or self._known
            if not waiting:
                self._tallies.refused("connections")
                return False
            self._end(next(iter(waiting)), "connections")
        watched = _Watched(transport)
        self._open[client] = watched
        self._wait(client, watched)
        return True

    def gone(self, client: Client, transport: asyncio.Transport) -> None:
        """Forget a connection that is closed."""
        watched = self._open.get(client)
        if watched is not None and watched.transport is transport:
            self._stop_waiting(client, watched)
            del self._open[client]

    def _wait(self, client: Client, watched: "_Watched") -> None:
        (self._known if watched.known else self._strangers)[client] = None
        loop = asyncio.get_running_loop()
        watched.timer = loop.call_later(self._seconds, self._end, client, "slow_head")

    def _stop_waiting(self, client: Client, watched: "_Watched") -> None:
        self._strangers.pop(client, None)
        self._known.pop(client, None)
        if watched.timer is not None:
            watched.timer.cancel()
            watched.timer = None

    def _end(self, client: Client, cause: str) -> None:
        watched = self._open[client]
        self.gone(client, watched.transport)
        if not watched.transport.is_closing():
            self._tallies.refused(cause)
        # Not close(): a peer that reads nothing would hold it open.
        watched.transport.abort()


class Serving:
    """A request that is being served."""

    def __init__(self) -> None:
        self.known = False
        """Whether it came with a valid token."""


class _Watched:
    def __init__(self, transport: asyncio.Transport) -> None:
        self.transport = transport
        self.requests = 0
        self.known = False
        self.timer: asyncio.TimerHandle | None = None


def watched_by(connections: Connections) -> type[asyncio.Protocol]:
    """Return a protocol for uvicorn whose connections are taken up in `connections`."""

    class Watched(asyncio.Protocol):
        """uvicorn's own protocol, told of a connection only if it was admitted."""

        def __init__(self, **given: Any) -> None:
            # Not httptools where it is found: that one takes heads of any length.
            self._inner = H11Protocol(**given)
            self._client: Client | None = None
            self._transport: asyncio.Transport | None = None

        def connection_made(self, transport: asyncio.BaseTransport) -> None:
            # uvloop's is one without being derived from it.
            transport = cast(asyncio.Transport, transport)
            peer = transport.get_extra_info("peername")
            # Closed before we looked: there is nobody to serve.
            if peer is None or not connections.admit((str(peer[0]), int(peer[1])), transport):
                transport.abort()
                return
            self._client = (str(peer[0]), int(peer[1]))
            self._transport = transport
            self._inner.connection_made(transport)

        def connection_lost(self, exc: Exception | None) -> None:
            if self._client is not None and self._transport is not None:
                connections.gone(self._client, self._transport)
                self._inner.connection_lost(exc)

        def data_received(self, data: bytes) -> None:
            if self._client is not None:
                self._inner.data_received(data)

        def eof_received(self) -> None:
            if self._client is not None:
                self._inner.eof_received()

        def pause_writing(self) -> None:
            self._inner.pause_writing()

        def resume_writing(self) -> None:
            self._inner.resume_writing()

    return Watched
