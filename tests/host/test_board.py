"""The board of a large campaign: pages that lead on, each short enough for every client."""

import pytest
from stories import Story

from kernelarc_mcp.host.board_rows import Places, agent_rows, agents_in_order
from kernelarc_mcp.host.events import AgentAdded, Registered
from kernelarc_mcp.host.plateau import first_lens


def kept(story: Story, agent: str) -> str:
    ticket = story.submit(agent)
    story.claim()
    story.judge(ticket, "promising", "kept")
    return ticket


@pytest.fixture
def story() -> Story:
    told = Story()
    for agent in ("ada", "bob", "ada"):
        kept(told, agent)
    loser = told.submit("bob")
    told.claim()
    told.judge(loser, "close")
    return told


def test_pages_of_rows_put_together_are_all_places_ranked_without_a_gap(story: Story) -> None:
    places = Places(story.state)
    whole = places.rows(1, 100)
    assert [row.rank for row in whole] == list(range(1, len(places) + 1))
    paged = [row for first in range(1, len(places) + 1, 2) for row in places.rows(first, 2)]
    assert paged == whole
    assert places.rows(len(places) + 1, 5) == []
    confirmed = [row.speedup or 0.0 for row in whole if row.verdict == "KEEP"]
    assert len(confirmed) == 3 and confirmed == sorted(confirmed, reverse=True)
    # A branch that is no record comes behind all records, the seed among them.
    assert whole[-1].verdict == "ACCEPT" and whole[-2].submission == "seed"


def test_the_caller_comes_first_and_then_those_with_the_best_gain(story: Story) -> None:
    for name in ("cyd", "dot"):
        story.add(AgentAdded(attempts=1), name)
        story.add(Registered(lens=first_lens(story.state)), name)
    agents = agents_in_order(story.state, "dot")
    best = [one.best for one in agents[1:]]
    assert agents[0].name == "dot" and agents[-1].name == "cyd"
    assert best[0] is not None and best[1] is not None and best[0] >= best[1]
    shown = [agent_rows(story.state, agents, first, 2) for first in (1, 3, 5)]
    assert [len(page) for page in shown] == [2, 2, 0]
    assert {row.agent for page in shown for row in page} == set(story.state.agents)
