"""The tool that says what holds a submission up."""

from typing import Annotated, Any

import anyio
from mcp.server.mcpserver import Context
from pydantic import Field

from kernelarc_mcp.follow import HEARTBEAT, MAX_WAIT, POLL
from kernelarc_mcp.profile_views import ProfileView
from kernelarc_mcp.tools.desk import Desk
from kernelarc_mcp.tools.parameters import Turn, Wait


class ProfilingTools:
    """Tools that cost device time, but no attempt."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk

    async def profile_candidate(
        self,
        context: Context[Any, Any],
        submission: Annotated[
            str,
            Field(
                min_length=1,
                max_length=100,
                description="The ticket of your submission, as submit_candidate returned it.",
            ),
        ],
        workload: Annotated[
            str,
            Field(max_length=100, description="Its uuid; empty: the one that took longest."),
        ] = "",
        wait_seconds: Wait = 45.0,
        turn: Turn = 1,
    ) -> ProfileView:
        """Profile one call of a submission of yours that was judged right: bottleneck, share of each
        roof, <cuda>a timeline, stalls, occupancy and its limiter, registers, spills, shared memory, L2 hits,
        </cuda>and what its machine code holds beside the record's. Costs device time, no attempt; asked again it
        returns the same profile and costs nothing.<cpu> There are no counters: rates and machine
        code alone.</cpu>"""
        agent, host = self._desk.caller(), self._desk.host
        view = host.profile(agent, submission, workload)
        deadline = anyio.current_time() + min(wait_seconds, MAX_WAIT)
        told, beat = 0.0, 0.0
        while view.state == "queued" and (left := deadline - anyio.current_time()) > 0:
            if host.stopping:
                break
            now = anyio.current_time()
            if now >= beat:
                told += 0.001
                beat = now + HEARTBEAT
                await context.report_progress(told, 100.0, view.profile)
            await anyio.sleep(min(POLL, left))
            view = host.profile_now(agent, submission, view.workload)
        if view.state != "queued":
            return view
        step = f"{view.next_step.rstrip('.')}, and turn {turn + 1}."
        return view.model_copy(update={"next_step": step})
