"""Recording in the ledger what decides nothing."""

from kernelarc_mcp.host.campaign import Campaign
from kernelarc_mcp.host.errors import UnknownAgent
from kernelarc_mcp.host.usage import Used


def record_usage(campaign: Campaign, agent: str, used: Used) -> bool:
    """Store what a run of an agent's client used; False where that run was stored before."""
    with campaign.journal.writing() as writer:
        standing = writer.state.agents.get(agent)
        if standing is None:
            expected = ", ".join(writer.state.agents)
            raise UnknownAgent(f"there is no agent {agent!r} in this campaign; it has {expected}")
        if used.run in standing.usage.runs:
            return False
        writer.append(used, agent)
    return True
