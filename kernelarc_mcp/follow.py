"""Waiting for a submission inside one call, without tying the submission to the call."""

from typing import Any

import anyio
from mcp.server.mcpserver import Context

from kernelarc_mcp.host.host import Host
from kernelarc_mcp.views import SubmissionView

MAX_WAIT = 50.0
"""Seconds one call may last: under the smallest timeout of the common clients, 60 s."""
HEARTBEAT = 5.0
"""Longest silence in seconds between two progress notifications."""
POLL = 0.1
LOOK = 0.001
"""All who wait in one process look about once in so long, together, where that is less often."""


class _Crowd:
    """All calls of this process that wait, for submissions of whatever campaign."""

    waiting = 0


_CROWD = _Crowd()


async def follow(
    host: Host, agent: str, ticket: str, context: Context[Any, Any], seconds: float
) -> SubmissionView:
    """Return the submission when it is done or after `seconds`, reporting progress meanwhile.

    Earlier where this process is about to end. Cancelling the call ends the waiting only: the
    submission lives in the ledger.
    """
    _CROWD.waiting += 1
    try:
        return await _follow(host, agent, ticket, context, seconds)
    finally:
        _CROWD.waiting -= 1


async def _follow(
    host: Host, agent: str, ticket: str, context: Context[Any, Any], seconds: float
) -> SubmissionView:
    deadline = anyio.current_time() + min(seconds, MAX_WAIT)
    told = 0.0
    while True:
        # Taken before looking, so that a change in between ends the next wait at once.
        seen = host.changed(ticket)
        view = host.submission(agent, ticket)
        now = anyio.current_time()
        if view.state == "done" or now >= deadline or host.stopping:
            return view
        # Clients drop a progress that does not strictly increase.
        told = max(told + 0.001, float(view.percent))
        await context.report_progress(told, 100.0, _message(view))
        await _until_changed(host, ticket, seen, min(deadline, now + HEARTBEAT))


async def _until_changed(host: Host, ticket: str, seen: int, deadline: float) -> None:
    # Polled, because another process may be the one that judges.
    while (left := deadline - anyio.current_time()) > 0:
        await anyio.sleep(min(max(POLL, LOOK * _CROWD.waiting), left))
        if host.stopping or host.changed(ticket) != seen:
            return


def _message(view: SubmissionView) -> str:
    return view.message if view.stage is None else f"{view.stage}: {view.message}"
