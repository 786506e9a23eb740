"""A verdict in one line that a person can read."""

from datetime import datetime
from typing import Any

from kernelarc_mcp.host.state import Attempt


def verdict_line(attempt: Attempt) -> str:
    """Return who submitted what, what became of it, where and after how long; no word of the agent's."""
    factor = f", {attempt.speedup:.3f}x {attempt.against}" if attempt.speedup is not None else ""
    return (
        f"{attempt.ticket}  {attempt.agent}  {attempt.verdict} {attempt.reason}{factor}"
        f"  ({attempt.stage}, {_seconds(attempt):.1f} s)"
    )


def verdict_fields(attempt: Attempt) -> dict[str, Any]:
    """Return the same as the fields of a structured line."""
    return {
        "ticket": attempt.ticket,
        "agent": attempt.agent,
        "verdict": attempt.verdict,
        "reason": attempt.reason,
        "stage": attempt.stage,
        "speedup": attempt.speedup,
        "seconds": round(_seconds(attempt), 3),
    }


def _seconds(attempt: Attempt) -> float:
    ended = datetime.fromisoformat(attempt.settled_at)
    return (ended - datetime.fromisoformat(attempt.at)).total_seconds()
