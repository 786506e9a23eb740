"""Putting branches' files into workspaces: owed by the row that moved one, so that a kill loses none."""

from kernelarc_guard.solution import SourceFile
from kernelarc_mcp.host.campaign import Campaign
from kernelarc_mcp.host.owed import debts, paid
from kernelarc_mcp.host.submit import solution_of
from kernelarc_mcp.host.workspace import restore_workspace


def restore_owed(campaign: Campaign) -> None:
    """Put in place what is owed. An agent that has submitted since is past it: its files stay."""
    journal = campaign.journal
    with journal.reading() as state:
        connection = journal.ledger.connection
        owed = debts(connection, "workspace")
        wanted: dict[str, list[SourceFile]] = {}
        for debt in owed:
            later = connection.execute(
                "SELECT 1 FROM event WHERE seq > ? AND kind = 'submitted' AND agent = ? LIMIT 1",
                [debt.seq, debt.agent],
            )
            if later.fetchone() is None:
                branch = state.agents[debt.agent].branch
                wanted[debt.agent] = solution_of(campaign, state, branch).sources
    if not owed:
        return
    for agent, sources in wanted.items():
        restore_workspace(campaign.workspace(agent), sources)
    with journal.alone() as connection:
        paid(connection, owed)
