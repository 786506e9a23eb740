"""Listening on an address and serving an application there until the process is told to end."""

import asyncio
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Final, Protocol

import anyio
import uvicorn
from sse_starlette.sse import AppStatus
from starlette.types import Receive, Scope, Send

from kernelarc_mcp.web.connections import Connections, watched_by

_WAITING: Final = 1024
"""Connections that the kernel keeps until they are accepted."""
_GRACE: Final = 4
"""Seconds a stop waits for what is open; streams are ended before, in half of it."""


class Entrance(Protocol):
    """An application that ends what it holds open."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""

    async def watch(self) -> None:
        """End what may not stay open, until cancelled."""

    def end_streams(self) -> None:
        """End everything that is open, as the server stops."""


class CannotListen(Exception):
    """The address is taken, or not one of this machine."""


@contextmanager
def listening(address: str, port: int) -> Iterator[tuple[socket.socket, str]]:
    """Yield a socket that listens, and its URL without a path; port 0 takes a free one."""
    with _listen(address, port) as found:
        shown = f"[{address}]" if ":" in address else address
        yield found, f"http://{shown}:{found.getsockname()[1]}"


async def run(
    entrance: Entrance,
    connections: Connections,
    listening: socket.socket,
    on_stopping: Callable[[], None] = lambda: None,
) -> int:
    """Serve until SIGTERM or SIGINT; `on_stopping` is called at that, before anything is ended.

    Return the signal's number where it did not end the process as signals do: a shell that is no
    terminal's has its background processes ignore SIGINT. 0 where no signal came.
    """
    config = uvicorn.Config(
        entrance,
        http=watched_by(connections),
        backlog=connections.backlog,
        ws="none",
        proxy_headers=False,
        # Its lines hold paths as clients send them, tokens in queries too.
        access_log=False,
        server_header=False,
        log_level="warning",
        timeout_graceful_shutdown=_GRACE,
        log_config=None,
    )
    # It would end streams at the signal, before the calls that wait there have answered.
    AppStatus.enable_automatic_graceful_drain = False
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(entrance.watch)
        server = _Server(config, entrance, on_stopping)
        await server.serve(sockets=[listening])
        tasks.cancel_scope.cancel()
    return server.ended_by


class _Server(uvicorn.Server):
    """A uvicorn that ends open streams itself: clients that listen would hold a stop up."""

    def __init__(
        self, config: uvicorn.Config, entrance: Entrance, on_stopping: Callable[[], None]
    ) -> None:
        super().__init__(config)
        self._entrance = entrance
        self._on_stopping = on_stopping
        self.ended_by = 0
        """Number of the first signal that told it to end."""

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        self.ended_by = self.ended_by or sig
        super().handle_exit(sig, frame)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        for listening in sockets or []:
            # The loop accepts few in one go; those that wait for their turn need not come again.
            listening.listen(_WAITING)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._on_stopping()
        ending = asyncio.get_running_loop().call_later(_GRACE / 2, self._entrance.end_streams)
        try:
            await super().shutdown(sockets)
        finally:
            ending.cancel()


def _listen(address: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    # By its number: asyncio sends at once only on sockets that say they are TCP's. Else the second
    # part of each answer waits 40 ms for the client's acknowledgement of the first.
    listening = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((address, port))
        listening.listen(_WAITING)
    except OSError as error:
        listening.close()
        raise CannotListen(f"cannot listen on {address}:{port}: {error.strerror}") from error
    return listening
