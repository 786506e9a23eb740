"""What must hold after any kill: the ledger verifies, and charges and verdicts are as many as submissions."""

from collections import Counter
from pathlib import Path

from kernelarc_mcp.host.campaign import open_campaign
from kernelarc_mcp.host.verify import verify


def now(folder: Path, answered: list[tuple[str, str, str]]) -> list[str]:
    """Return what is wrong right after a kill; `answered` has agent, request id and ticket of each answer."""
    return verify(folder) + _charges(folder, answered, None)


def at_the_end(
    folder: Path, answered: list[tuple[str, str, str]], sent: set[tuple[str, str]]
) -> list[str]:
    """Return what is wrong when nothing is queued any more and all that was `sent` was answered."""
    return verify(folder) + _charges(folder, answered, sent)


def _charges(
    folder: Path, answered: list[tuple[str, str, str]], sent: set[tuple[str, str]] | None
) -> list[str]:
    campaign = open_campaign(folder)
    try:
        with campaign.journal.reading() as state:
            rows = campaign.journal.ledger.rows_after(0)
            charged = {(a.agent, a.request_id): a.ticket for a in state.attempts.values()}
            used = {name: agent.used for name, agent in state.agents.items()}
            open_ones = [a.ticket for a in state.attempts.values() if a.state != "done"]
            count = len(state.attempts)
    finally:
        campaign.close()
    verdicts = Counter(row.submission for row in rows if row.kind == "settled")
    wrong = [f"{t} has {n} verdicts" for t, n in verdicts.items() if n != 1]
    if len(charged) != count or sum(used.values()) != count:
        wrong.append(f"{count} submissions, {len(charged)} request ids, {used} charged")
    for agent, request, ticket in answered:
        if charged.get((agent, request)) != ticket:
            wrong.append(f"{request} of {agent} was answered {ticket}, which is not charged")
    if sent is not None:
        if set(charged) != sent:
            wrong.append(f"sent and charged differ by {sorted(set(charged) ^ sent)}")
        if missing := sent - {(agent, request) for agent, request, _ in answered}:
            wrong.append(f"never answered: {sorted(missing)}")
        if open_ones or set(verdicts) != set(charged.values()):
            wrong.append(f"without a verdict: {open_ones}")
    return wrong
