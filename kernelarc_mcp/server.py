"""The MCP server of one campaign: tools, resources and prompts over a host, and nothing decided."""

import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Literal

import anyio
from mcp.server import MCPServer
from mcp.server._otel import OpenTelemetryMiddleware
from mcp.server.subscriptions import InMemorySubscriptionBus
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from kernelarc_mcp import __version__
from kernelarc_mcp.changes import Changes
from kernelarc_mcp.host.dispatcher import Dispatcher
from kernelarc_mcp.host.errors import HostError
from kernelarc_mcp.host.host import Host
from kernelarc_mcp.host.judging import Executor
from kernelarc_mcp.host.lenses import backend_of
from kernelarc_mcp.instructions import INSTRUCTIONS
from kernelarc_mcp.prompts import add_prompts
from kernelarc_mcp.resources import add_resources
from kernelarc_mcp.tokens import CampaignTokens, header_only
from kernelarc_mcp.tools import (
    Desk,
    ProfilingTools,
    ReadingTools,
    SubmittingTools,
    tools_in_order,
)

log = logging.getLogger(__name__)
LogLevel = Literal["DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL"]
_RETRY_SECONDS = 15.0


def build_server(
    host: Host,
    *,
    guard_python: str,
    executor: Executor | None = None,
    agent: str = "",
    log_level: LogLevel = "WARNING",
) -> MCPServer[None]:
    """Return the server of `host`'s campaign.

    With `agent` every call is that agent's (stdio, in memory); without, each call must carry a
    bearer token of the campaign (HTTP). While the server runs it may become the campaign's
    dispatcher, which judges by `executor`; without one it runs a guard here with `guard_python`.
    """
    bus = InMemorySubscriptionBus()
    changes = Changes(host, bus)
    desk = Desk(host=host, launched_as=agent, notify=changes.publish)
    reading, submitting = ReadingTools(desk), SubmittingTools(desk)
    backend = backend_of(host.campaign.settings.device)

    @asynccontextmanager
    async def running(_: MCPServer[None]) -> AsyncIterator[None]:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(_dispatch, host, executor or guard_python)
            tasks.start_soon(changes.watch)
            yield
            tasks.cancel_scope.cancel()

    server = MCPServer[None](
        "kernelarc",
        title="KernelArc",
        version=__version__,
        instructions=INSTRUCTIONS,
        tools=tools_in_order(reading, submitting, ProfilingTools(desk), backend),
        lifespan=running,
        subscriptions=bus,
        log_level=log_level,
        token_verifier=None if agent else CampaignTokens(host),
        auth=None if agent else header_only(),
    )
    # Opting out as the SDK says: nobody collects its spans, and each call would make one.
    chain = [one for one in server.middleware if not isinstance(one, OpenTelemetryMiddleware)]
    server.middleware[:] = chain
    add_resources(server, host, reading, submitting)
    add_prompts(server)
    server.custom_route("/health", methods=["GET"])(_health)
    return server


def innermost(fault: BaseException) -> BaseException:
    """Return the one fault of a group that holds no other, of however many groups."""
    while isinstance(fault, BaseExceptionGroup) and len(fault.exceptions) == 1:
        (fault,) = fault.exceptions
    return fault


async def _health(_: Request) -> Response:
    return JSONResponse({"status": "ok", "server": "kernelarc", "version": __version__})


async def _dispatch(host: Host, executor: Executor | str) -> None:
    """Stand for election as the campaign's dispatcher, again after a fault; reading goes on."""
    while True:
        host.held_up = ""
        try:
            await Dispatcher(host, executor).run()
        except Exception as error:
            # The server's boundary: a fault in judging stops no reader.
            fault = innermost(error)
            if isinstance(fault, HostError):
                log.error("judging stopped, again in %g seconds: %s", _RETRY_SECONDS, fault)
            else:
                log.exception("judging stopped; it starts again in %g seconds", _RETRY_SECONDS)
            host.held_up = f"Judging stopped, and is tried again: {fault}"
        await anyio.sleep(_RETRY_SECONDS)
