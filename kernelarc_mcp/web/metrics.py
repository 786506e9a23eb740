"""`/metrics`: what the ledger, the front and the protocol count, as Prometheus text."""

from collections.abc import Iterable
from time import perf_counter
from typing import Any, Final

import anyio
from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    ProcessCollector,
    disable_created_metrics,
    generate_latest,
)
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4
from starlette.requests import Request
from starlette.responses import Response

from kernelarc_mcp.host.campaign import Campaign
from kernelarc_mcp.web.connections import Connections
from kernelarc_mcp.web.ledger_metrics import LedgerMetrics
from kernelarc_mcp.web.sessions import Sessions
from kernelarc_mcp.web.tallies import Tallies

METHODS: Final = frozenset(
    {
        "initialize",
        "ping",
        "server/discover",
        "subscriptions/listen",
        "tools/list",
        "tools/call",
        "resources/list",
        "resources/read",
        "resources/templates/list",
        "prompts/list",
        "prompts/get",
        "completion/complete",
    }
)
"""Methods that are counted by name; any other is `other`, as clients may invent as many as they like."""
OUTCOMES: Final = ("ok", "refused", "failed", "cancelled")
_BUCKETS: Final = (0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
"""Seconds; a call that waits for a verdict ends after 50."""


class Metrics:
    """The registry of one campaign's server."""

    def __init__(self, tools: Iterable[str] = ()) -> None:
        """Count the calls of these tools by name."""
        # Else each counter has a second series that says when it began.
        disable_created_metrics()  # type: ignore[no-untyped-call]
        self._registry = CollectorRegistry()
        self.tools = frozenset(tools)
        self.tallies = Tallies(self._registry)
        self._ledger: LedgerMetrics | None = None
        self._requests = Counter(
            "kernelarc_mcp_requests",
            "Requests of the protocol by method, tool and outcome.",
            ["method", "tool", "outcome"],
            registry=self._registry,
        )
        self._seconds = Histogram(
            "kernelarc_mcp_request_seconds",
            "How long requests took, by method and tool.",
            ["method", "tool"],
            buckets=_BUCKETS,
            registry=self._registry,
        )

    @property
    def registry(self) -> CollectorRegistry:
        """Return what is counted."""
        return self._registry

    def follow(self, campaign: Campaign | None) -> None:
        """Collect from this campaign's ledger from now on; without one from none."""
        if self._ledger is not None:
            self._registry.unregister(self._ledger)
        self._ledger = None if campaign is None else LedgerMetrics(campaign)
        if self._ledger is not None:
            self._registry.register(self._ledger)

    def watch(self, sessions: Sessions) -> None:
        """Collect how many sessions are open, too."""
        sessions_now = Gauge(
            "kernelarc_http_sessions",
            "Sessions of the handshake era that are open.",
            registry=self._registry,
        )
        sessions_now.set_function(lambda: len(sessions))

    async def observe(
        self, ctx: ServerRequestContext[Any, Any], call_next: CallNext
    ) -> HandlerResult:
        """Count a request of the protocol; notifications are not answered and not counted."""
        if ctx.request_id is None:
            return await call_next(ctx)
        method = ctx.method if ctx.method in METHODS else "other"
        tool = self._tool(ctx) if method == "tools/call" else ""
        outcome, began = "failed", perf_counter()
        try:
            result = await call_next(ctx)
            outcome = "refused" if _is_error(result) else "ok"
            return result
        except anyio.get_cancelled_exc_class():
            outcome = "cancelled"
            raise
        finally:
            self._requests.labels(method, tool, outcome).inc()
            self._seconds.labels(method, tool).observe(perf_counter() - began)

    async def answer(self, _: Request) -> Response:
        """Answer a scrape."""
        return Response(generate_latest(self._registry), media_type=CONTENT_TYPE_PLAIN_0_0_4)

    def _tool(self, context: ServerRequestContext[Any, Any]) -> str:
        name = (context.params or {}).get("name")
        return name if isinstance(name, str) and name in self.tools else "other"


def watch_process(registry: CollectorRegistry, connections: Connections) -> None:
    """Collect what this process uses and how many connections it has."""
    ProcessCollector(registry=registry)
    open_now = Gauge("kernelarc_http_connections", "Connections that are open.", registry=registry)
    open_now.set_function(lambda: len(connections))


def _is_error(result: HandlerResult) -> bool:
    if isinstance(result, dict):
        return bool(result.get("isError", False))
    return bool(getattr(result, "is_error", False))
