"""Serving many clients over streamable HTTP, on loopback unless told otherwise."""

import asyncio
import socket
from collections.abc import Callable
from dataclasses import dataclass, field

import anyio
import uvicorn
from mcp.server import MCPServer
from mcp.server.transport_security import TransportSecuritySettings
from starlette.types import ASGIApp

from kernelarc_mcp.dashboard.routes import FILES, Dashboard
from kernelarc_mcp.host.host import Host
from kernelarc_mcp.web import bodies, front, sessions
from kernelarc_mcp.web.connections import Connections, watched_by
from kernelarc_mcp.web.front import Front
from kernelarc_mcp.web.manage import Management
from kernelarc_mcp.web.metrics import Metrics
from kernelarc_mcp.web.names import Names
from kernelarc_mcp.web.rates import BURST_SECONDS, RATE, Rates
from kernelarc_mcp.web.sessions import Sessions

PATH = front.MCP
_WAITING = 1024
"""Connections that the kernel keeps until they are accepted."""
_GRACE = 2
"""Seconds a stop waits for what is open; streams are ended before, in half of it."""


@dataclass(frozen=True)
class Rules:
    """Who may call, and how often."""

    names: Names = field(default_factory=lambda: Names.of(()))
    rate: float = RATE
    """Requests per second of one holder; 0: as many as it likes."""
    receive_seconds: float = 15.0
    """Longest time for a request's head, and again for its body."""
    open_metrics: bool = False
    """Whether metrics need no token."""


class CannotListen(Exception):
    """The address is taken, or not one of this machine."""


async def serve_http(
    server: MCPServer[None],
    host: Host | None,
    address: str,
    port: int,
    *,
    rules: Rules,
    on_listening: Callable[[str], None],
) -> None:
    """Serve until SIGTERM or SIGINT; port 0 takes a free one, told to `on_listening` as a URL.

    `host` is whose tokens are believed and whose ledger is measured; None serves anybody, for
    trying an application that has no campaign. Raises CannotListen.
    """
    with _listen(address, port) as listening:
        bound = listening.getsockname()[1]
        shown = f"[{address}]" if ":" in address else address
        tools = [tool.name for tool in await server.list_tools()]
        metrics = Metrics(tools)
        connections = Connections(metrics.tallies, rules.receive_seconds)
        entrance = _entrance(server, host, rules, metrics, connections)
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
        on_listening(f"http://{shown}:{bound}{PATH}")
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(entrance.watch)
            await _Server(config, entrance).serve(sockets=[listening])
            tasks.cancel_scope.cancel()


class _Server(uvicorn.Server):
    """A uvicorn that ends open streams itself: clients that listen would hold a stop up."""

    def __init__(self, config: uvicorn.Config, entrance: Front) -> None:
        super().__init__(config)
        self._entrance = entrance

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        for listening in sockets or []:
            # The loop accepts few in one go; those that wait for their turn need not come again.
            listening.listen(_WAITING)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        ending = asyncio.get_running_loop().call_later(_GRACE / 2, self._entrance.end_streams)
        try:
            await super().shutdown(sockets)
        finally:
            ending.cancel()


def _entrance(
    server: MCPServer[None],
    host: Host | None,
    rules: Rules,
    metrics: Metrics,
    connections: Connections,
) -> Front:
    opened = Sessions()
    metrics.watch(None if host is None else host.campaign, connections, opened)
    server.middleware.append(metrics.observe)
    server.custom_route(front.METRICS, methods=["GET"])(metrics.answer)
    if host is not None:
        management = Management(host)
        tokens = f"{front.MANAGE}/tokens"
        server.custom_route(tokens, methods=["GET", "POST"])(management.tokens)
        server.custom_route(f"{tokens}/{{id}}", methods=["DELETE"])(management.token)
        dashboard = Dashboard(host.campaign)
        server.custom_route("/", methods=["GET"])(dashboard.page)
        server.custom_route(f"{FILES}/{{name}}", methods=["GET"])(dashboard.file)
        server.custom_route(front.DATA, methods=["GET"])(dashboard.data)
        server.custom_route(f"{front.DATA}/changes", methods=["GET"])(dashboard.changes)
    return Front(
        _protocol(server),
        tokens=host,
        names=rules.names,
        rates=Rates(rules.rate, BURST_SECONDS * rules.rate),
        connections=connections,
        sessions=opened,
        tallies=metrics.tallies,
        body_seconds=rules.receive_seconds,
        open_paths=frozenset({front.METRICS} if rules.open_metrics else ()),
    )


def _protocol(server: MCPServer[None]) -> ASGIApp:
    return server.streamable_http_app(
        streamable_http_path=PATH,
        # The front has checked both headers, for every path.
        transport_security=TransportSecuritySettings(enable_dns_rebinding_protection=False),
        max_request_body_size=bodies.LIMIT,
        session_idle_timeout=sessions.IDLE_SECONDS,
        max_sessions=sessions.ALL,
    )


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
