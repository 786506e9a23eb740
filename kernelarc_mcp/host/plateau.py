"""When an agent has to draft, and under which lens; pure."""

from kernelarc_mcp.host.state import AgentStanding, CampaignState

CORRECT_REVERTS = frozenset({"slower", "not_proven_close", "workload_regressed"})
"""Reasons of a REVERT whose values were all right: such a draft becomes the branch."""


def is_due(state: CampaignState, agent: str) -> bool:
    """Say whether the plateau counter sends the agent drafting now."""
    standing = state.agents[agent]
    return not standing.drafting and standing.r >= state.campaign.settings.r_draft


def first_lens(state: CampaignState) -> str:
    """Return the lens of an agent that registers now: the least used, in the campaign's order."""
    return _least_used(state, state.campaign.settings.lenses)


def draft_lens(state: CampaignState, standing: AgentStanding) -> str:
    """Return the lens of a draft: the least used but the current one, where there is another."""
    others = [lens for lens in state.campaign.settings.lenses if lens != standing.lens]
    return _least_used(state, others or state.campaign.settings.lenses)


def _least_used(state: CampaignState, lenses: list[str]) -> str:
    return min(lenses, key=lambda lens: (state.lens_use[lens], lenses.index(lens)))
