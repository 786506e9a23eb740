"""What an agent must do next, and which directive outranks which; pure."""

from kernelarc_mcp.host.state import CampaignState
from kernelarc_mcp.views import Directive


def directive(state: CampaignState, agent: str, now: str) -> Directive:
    """Return the agent's directive: STOP before DRAFT before RESTORE before CONTINUE."""
    standing = state.agents[agent]
    if state.attempts_left(agent) <= 0 or state.limit_reached(now, agent):
        return "STOP"
    if standing.drafting:
        return "DRAFT"
    return "RESTORE" if standing.restoring else "CONTINUE"
