"""What a lens brought: a function of the rows, for every story of a campaign."""

import pytest
from stories import AGENTS, Story

from kernelarc_guard.protocol import Lease
from kernelarc_mcp.host.credit import lens_credit
from kernelarc_mcp.host.events import AgentAdded, Registered
from kernelarc_mcp.host.plateau import first_lens
from kernelarc_mcp.lens_views import LensCreditView


def credits_of(story: Story) -> dict[str, LensCreditView]:
    return {row.lens: row for row in lens_credit(story.state)}


def test_a_keep_brings_its_gain_to_the_lens_it_was_found_under() -> None:
    story = Story()
    ada = story.submit("ada")
    bob = story.submit("bob")
    story.claim()
    story.judge(ada, "promising", "kept")
    story.claim()
    story.judge(bob, "slower")
    rows = credits_of(story)
    gain = story.state.record.gain
    assert gain is not None
    assert rows["one"].keeps == 1
    assert rows["one"].gain_percent == pytest.approx(100 * (gain - 1))
    assert rows["one"].gain_per_attempt == rows["one"].gain_percent
    assert rows["two"].model_dump(include={"keeps", "attempts", "gain_percent", "verdicts"}) == {
        "keeps": 0,
        "attempts": 1,
        "gain_percent": 0.0,
        "verdicts": {"REVERT": 1},
    }
    assert "three" not in rows
    assert list(rows) == ["one", "two"]


def test_a_lens_without_an_attempt_has_no_rate() -> None:
    rows = credits_of(Story())
    assert [row.agents for row in rows.values()] == [["ada"], ["bob"]]
    for row in rows.values():
        assert row.attempts == 0 and row.assigned == 1
        assert row.gain_per_attempt is None and row.gain_per_device_second is None


def test_an_attempt_counts_for_the_lens_it_was_made_under_after_a_draft_changed_it() -> None:
    story = Story()
    for _ in range(3):
        ticket = story.submit("ada")
        story.claim()
        story.judge(ticket, "close")
    assert story.state.agents["ada"].lens == "three"
    rows = credits_of(story)
    assert rows["one"].attempts == 3 and rows["one"].agents == []
    assert rows["three"].attempts == 0 and rows["three"].agents == ["ada"]
    assert sum(row.attempts for row in rows.values()) == story.state.used


def test_seconds_are_those_the_device_was_held_for_its_judgements() -> None:
    story = Story()
    ticket = story.submit("ada")
    story.claim()
    lease = Lease(device="cpu", from_ns=1_000_000_000, to_ns=3_500_000_000)
    story.judge(ticket, "promising", "kept", lease=lease)
    row = credits_of(story)["one"]
    assert row.device_seconds == pytest.approx(5.0)  # screen and confirmation
    assert row.gain_per_device_second == pytest.approx(row.gain_percent / 5.0)


def test_lenses_are_distinct_until_all_are_used_and_then_the_least_used_in_order() -> None:
    story = Story()
    for name in ("cyd", "dot", "eve", "fay"):
        story.add(AgentAdded(attempts=1), name)
        story.add(Registered(lens=first_lens(story.state)), name)
    given = [story.state.agents[name].lens for name in (*AGENTS, "cyd", "dot", "eve", "fay")]
    assert given == ["one", "two", "three", "one", "two", "three"]
    assert {row.assigned for row in lens_credit(story.state)} == {2}
