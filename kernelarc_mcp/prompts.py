"""Prompts: how a person starts an agent."""

from typing import Any

from mcp.server import MCPServer

from kernelarc_mcp.host.gate import MAX_SIMILARITY
from kernelarc_mcp.instructions import INSTRUCTIONS


def add_prompts(server: MCPServer[Any]) -> None:
    """Register the campaign's prompts."""

    @server.prompt(title="Optimise this campaign's kernel")
    def optimise(attempts: str = "") -> str:
        """Work on the campaign until the attempts are spent or no idea is left."""
        limit = f" Make at most {attempts} submissions." if attempts else ""
        return (
            "Optimise this campaign's kernel through the kernelarc tools." + limit + "\n\n"
            f"{INSTRUCTIONS}\n"
            "Before each submission say in one sentence why it should be faster than the record. "
            "After a KEEP, and after any failure that teaches something, call write_conclusion. "
            "Go on until the directive is STOP or you have no idea left that memory does not rule "
            "out; then report the board."
        )

    @server.prompt(title="Draft a new algorithm")
    def draft(idea: str = "") -> str:
        """Leave a plateau with something really different."""
        start = f"The idea to try: {idea}\n" if idea else ""
        return (
            "Your next submission to the kernelarc server is a draft.\n"
            f"{start}"
            "Call get_brief for your branch and directive, get_strategy_lens for your lens, "
            "view_leaderboard and view_snapshot for what others did. Then write a candidate that "
            "differs from your branch in at least one of algorithm, DSL and memory layout, "
            "declare them (algorithm, dsl, layout) in submit_candidate, and start from an empty "
            f"file: what shares more than {MAX_SIMILARITY:.0%} of its text with the branch is refused as "
            "draft_not_new, which costs an attempt."
        )
