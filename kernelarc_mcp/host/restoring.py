"""Putting branches' files back into workspaces: owed by the row that asked for it, so that a kill loses none."""

from kernelarc_guard.solution import SourceFile
from kernelarc_mcp.host.campaign import Campaign
from kernelarc_mcp.host.owed import debts, paid
from kernelarc_mcp.host.submit import solution_of
from kernelarc_mcp.host.workspace import restore_workspace


def restore_owed(campaign: Campaign) -> None:
    """Put back what is owed. An agent that has submitted since is past it: its files stay."""
    journal = campaign.journal
    with journal.reading() as state:
        owed = debts(journal.ledger.connection, "workspace")
        wanted: dict[str, list[SourceFile]] = {}
        for debt in owed:
            standing = state.agents[debt.agent]
            if standing.restoring:
                wanted[debt.agent] = solution_of(campaign, state, standing.branch).sources
    if not owed:
        return
    for agent, sources in wanted.items():
        restore_workspace(campaign.workspace(agent), sources)
    with journal.alone() as connection:
        paid(connection, owed)
