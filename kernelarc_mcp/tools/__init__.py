"""The tools of the server, one method each; no decision is taken here."""

from mcp.server.mcpserver.tools import Tool

from kernelarc_mcp.host.lenses import Backend
from kernelarc_mcp.tool import make_tool, word
from kernelarc_mcp.tools.desk import Desk
from kernelarc_mcp.tools.profiling import ProfilingTools
from kernelarc_mcp.tools.reading import ReadingTools
from kernelarc_mcp.tools.submitting import SubmittingTools

__all__ = ["Desk", "ProfilingTools", "ReadingTools", "SubmittingTools", "tools_in_order"]


def tools_in_order(
    reading: ReadingTools,
    submitting: SubmittingTools,
    profiling: ProfilingTools,
    backend: Backend,
) -> list[Tool]:
    """Return the tools in the order clients list them, the order of use, in the words of a backend.

    The order is part of the contract, since clients cache prompts by it.
    """
    tools = [
        # The first brief registers the agent, so it is not read-only.
        make_tool(reading.get_brief, "Get the brief", idempotent=True),
        make_tool(reading.get_strategy_lens, "Get a strategy lens", read_only=True),
        make_tool(reading.read_memory, "Read wins and traps", read_only=True),
        make_tool(submitting.submit_candidate, "Submit a candidate"),
        make_tool(submitting.wait_submission, "Wait for a submission", read_only=True),
        make_tool(
            submitting.cancel_submission,
            "Cancel a queued submission",
            destructive=True,
            idempotent=True,
        ),
        make_tool(profiling.profile_candidate, "Profile a submission", idempotent=True),
        make_tool(reading.write_conclusion, "Write a win or a trap", idempotent=True),
        make_tool(reading.view_leaderboard, "View the leaderboard", read_only=True),
        make_tool(reading.view_snapshot, "View a submission's source", read_only=True),
    ]
    for tool in tools:
        word(tool, backend)
    return tools
