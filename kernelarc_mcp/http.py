"""Serving many clients over streamable HTTP, on loopback unless told otherwise."""

import logging
from collections.abc import Callable
from dataclasses import dataclass, field

import anyio
from mcp.server import MCPServer
from mcp.server.transport_security import TransportSecuritySettings
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp

from kernelarc_mcp.dashboard.routes import Dashboard
from kernelarc_mcp.host.errors import HostError
from kernelarc_mcp.host.host import Host
from kernelarc_mcp.pauses import collect_between
from kernelarc_mcp.web import answers, bodies, front, sessions
from kernelarc_mcp.web.connections import Connections
from kernelarc_mcp.web.front import Front
from kernelarc_mcp.web.listening import CannotListen, listening, run
from kernelarc_mcp.web.manage import Management
from kernelarc_mcp.web.metrics import Metrics, watch_process
from kernelarc_mcp.web.names import Names
from kernelarc_mcp.web.protocol import Protocol
from kernelarc_mcp.web.rates import BURST_SECONDS, RATE, Rates
from kernelarc_mcp.web.sessions import Sessions

__all__ = ["CannotListen", "Rules", "application", "prepare", "serve_http"]

log = logging.getLogger(__name__)

PATH = front.MCP


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


async def serve_http(
    server: MCPServer[None],
    host: Host | None,
    address: str,
    port: int,
    *,
    rules: Rules,
    on_listening: Callable[[str], None],
    on_stopping: Callable[[], None] = lambda: None,
) -> int:
    """Serve until SIGTERM or SIGINT; port 0 takes a free one, told to `on_listening` as a URL.

    Return the signal's number, 0 without one, where it did not end the process.

    When it is told to end, calls that wait are answered as things stand and `on_stopping` is called.
    `host` is whose tokens are believed and whose ledger is measured; None serves anybody, for
    trying an application that has no campaign. Raises CannotListen.
    """
    with listening(address, port) as (found, url):
        tools = [tool.name for tool in await server.list_tools()]
        metrics = Metrics(tools)
        connections = Connections(metrics.tallies, rules.receive_seconds)
        dashboard = None if host is None else Dashboard(host.campaign)
        entrance = _entrance(server, host, dashboard, rules, metrics, connections)

        def stopping() -> None:
            if host is not None:
                host.stopping = True
            on_stopping()

        on_listening(f"{url}{PATH}")
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(collect_between)
            if dashboard is not None:
                tasks.start_soon(prepare, dashboard)
            ended_by = await run(entrance, connections, found, stopping)
            tasks.cancel_scope.cancel()
        return ended_by


async def prepare(dashboard: Dashboard) -> None:
    """Read what a dashboard shows, so that the first page need not wait."""
    try:
        await dashboard.prepare()
    except HostError as error:
        # Whoever opens the page is told again; the server has more to do than to show it.
        log.warning("the dashboard could not be prepared: %s", error)


def _entrance(
    server: MCPServer[None],
    host: Host | None,
    dashboard: Dashboard | None,
    rules: Rules,
    metrics: Metrics,
    connections: Connections,
) -> Front:
    opened = Sessions()
    watch_process(metrics.registry, connections)
    metrics.follow(None if host is None else host.campaign)
    metrics.watch(opened)
    return Front(
        application(server, host, dashboard, metrics),
        tokens=host,
        names=rules.names,
        rates=Rates(rules.rate, BURST_SECONDS * rules.rate),
        connections=connections,
        sessions=opened,
        tallies=metrics.tallies,
        body_seconds=rules.receive_seconds,
        open_paths=frozenset({front.METRICS} if rules.open_metrics else ()),
    )


def application(
    server: MCPServer[None], host: Host | None, dashboard: Dashboard | None, metrics: Metrics
) -> ASGIApp:
    """Return what stands behind the front: the protocol, metrics, tokens and the dashboard.

    Its lifespan, or `server.session_manager.run()`, has to be entered before it is asked.
    """
    server.middleware.append(metrics.observe)
    server.custom_route(front.METRICS, methods=["GET"])(metrics.answer)
    if host is not None:
        management = Management(host)
        tokens = f"{front.MANAGE}/tokens"
        server.custom_route(tokens, methods=["GET", "POST"])(management.tokens)
        server.custom_route(f"{tokens}/{{id}}", methods=["DELETE"])(management.token)
    if dashboard is not None:
        for path, answer in dashboard.addresses().items():
            server.custom_route(path, methods=["GET"])(answer)
    return _protocol(server)


def _protocol(server: MCPServer[None]) -> ASGIApp:
    app = server.streamable_http_app(
        streamable_http_path=PATH,
        # The front has checked both headers, for every path.
        transport_security=TransportSecuritySettings(enable_dns_rebinding_protection=False),
        max_request_body_size=bodies.LIMIT,
        session_idle_timeout=sessions.IDLE_SECONDS,
        max_sessions=sessions.ALL,
    )
    paths = sorted(path for one in app.routes if "{" not in (path := getattr(one, "path", "{")))

    async def nothing_here(_: Request, __: Exception) -> Response:
        return answers.no_such_path(paths)

    app.add_exception_handler(404, nothing_here)
    app.add_exception_handler(405, answers.not_the_endpoint)
    return Protocol(PATH, server.session_manager.handle_request, app)
