"""Laws of the plateau, the budget and the error wealth, on the pure state alone."""

from collections import Counter
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from stories import AGENTS, CONFIRMATIONS, SCREENS, Story, confirm_result, screen_result

from kernelarc_mcp.host.events import (
    SEED,
    Confirmed,
    Interrupted,
    Screened,
    Settled,
    Staked,
    read,
    seal,
)
from kernelarc_mcp.host.replay import Inconsistent, replay
from kernelarc_mcp.host.settle import outcome
from kernelarc_mcp.host.state import CampaignState


class Campaigning(RuleBasedStateMachine):
    """Agents submit, the dispatcher judges in any way; the laws hold after every row."""

    def __init__(self) -> None:
        super().__init__()
        self.story = Story()
        self.verdicts: Counter[str] = Counter()

    @property
    def state(self) -> CampaignState:
        return self.story.state

    @rule(agent=st.sampled_from(AGENTS))
    def submit(self, agent: str) -> None:
        if self.state.attempts_left(agent) > 0:
            self.story.submit(agent)
        else:
            assert self.story.directive(agent) == "STOP"
            with pytest.raises(Inconsistent, match="no attempt was left"):
                self.story.submit(agent)

    @precondition(lambda self: self.state.queue())
    @rule(
        screen=st.sampled_from(sorted(SCREENS)), confirmation=st.sampled_from(sorted(CONFIRMATIONS))
    )
    def judge(self, screen: str, confirmation: str) -> None:
        ticket = self.story.claim()
        attempt = self.state.attempts[ticket]
        standing = self.state.agents[attempt.agent]
        before = (standing.r, standing.branch, standing.drafts, standing.drafting, standing.lens)
        answers_draft = standing.drafting and attempt.episode == standing.episode
        wealth = dict(self.state.wealth)
        record = self.state.record.ticket
        self.story.judge(ticket, screen, confirmation)
        r, branch, drafts, drafting, lens = before
        verdict = attempt.verdict
        assert verdict is not None
        if verdict == "REJECT":
            assert before == (
                standing.r,
                standing.branch,
                standing.drafts,
                standing.drafting,
                standing.lens,
            )
            return
        correct = screen != "wrong"
        moves_branch = verdict in ("KEEP", "ACCEPT") or (answers_draft and correct)
        assert standing.branch == (ticket if moves_branch else branch)
        assert standing.drafts == drafts + answers_draft
        expected_r = 0 if verdict == "KEEP" or answers_draft else r + 1
        assert standing.r == expected_r
        if not drafting and expected_r >= 3:
            assert standing.drafting and standing.lens != lens
        elif drafting and not answers_draft and verdict != "KEEP":
            assert standing.drafting and standing.lens == lens
        else:
            assert not standing.drafting
        assert self.state.record.ticket == (ticket if verdict == "KEEP" else record)
        lost = screen == "promising" and verdict != "KEEP"
        share = attempt.agent
        assert (self.state.wealth[share] < wealth[share]) == lost
        assert all(self.state.wealth[name] == wealth[name] for name in AGENTS if name != share)

    @precondition(lambda self: self.state.queue())
    @rule()
    def lose_the_dispatcher(self) -> None:
        used = self.state.used
        ticket = self.story.claim()
        attempt = self.state.attempts[ticket]
        cut = Interrupted(cause="dispatcher_lost", detail="")
        self.story.add(cut, attempt.agent, ticket)
        assert self.state.queue()[0] == ticket and self.state.used == used

    @precondition(lambda self: self.state.queue())
    @rule(position=st.integers(0, 30))
    def cancel(self, position: int) -> None:
        queue = self.state.queue()
        ticket = queue[position % len(queue)]
        r = {a.name: a.r for a in self.state.agents.values()}
        cancelled = Settled(verdict="REJECT", reason="cancelled", stage="envelope", detail="")
        self.story.settle(ticket, cancelled)
        assert {a.name: a.r for a in self.state.agents.values()} == r

    @invariant()
    def no_budget_is_negative(self) -> None:
        assert all(self.state.attempts_left(agent) >= 0 for agent in AGENTS)
        assert all(amount > 0 for amount in self.state.wealth.values())
        reserved = sum(a.reserved or 0.0 for a in self.state.attempts.values())
        assert sum(self.state.wealth.values()) + reserved <= 0.01 * (1 + 1e-12)

    @invariant()
    def directives_keep_their_precedence(self) -> None:
        for name, standing in self.state.agents.items():
            expected = "RESTORE" if standing.restoring else "CONTINUE"
            expected = "DRAFT" if standing.drafting else expected
            expected = "STOP" if self.state.attempts_left(name) == 0 else expected
            assert self.story.directive(name) == expected


TestCampaigning = Campaigning.TestCase
TestCampaigning.settings = hypothesis_settings(
    max_examples=25, stateful_step_count=40, deadline=None
)


def test_lenses_are_distinct_first_and_then_the_least_used() -> None:
    story = Story()
    assert [story.state.agents[name].lens for name in AGENTS] == ["one", "two"]
    for _ in range(3):
        story.submit("ada")
        story.judge(story.claim(), "wrong")
    assert story.state.agents["ada"].lens == "three"


def test_a_correct_draft_becomes_the_branch_however_slow_it_is() -> None:
    story = Story()
    for _ in range(3):
        story.submit("ada")
        story.judge(story.claim(), "close")
    ada = story.state.agents["ada"]
    assert (story.directive("ada"), ada.r, ada.branch) == ("DRAFT", 3, "s003")
    story.submit("ada")
    story.judge(story.claim(), "broken")
    assert (story.directive("ada"), ada.drafts) == ("DRAFT", 0)
    draft = story.submit("ada")
    story.judge(story.claim(), "slower")
    assert (story.directive("ada"), ada.r, ada.branch, ada.drafts) == ("CONTINUE", 0, draft, 1)
    story.submit("ada")
    story.judge(story.claim(), "slower")
    assert (story.directive("ada"), ada.r, ada.branch) == ("RESTORE", 1, draft)
    assert story.state.agents["bob"].branch == SEED


def test_a_wrong_draft_ends_the_draft_and_restores_the_old_branch() -> None:
    story = Story()
    for _ in range(3):
        story.submit("ada")
        story.judge(story.claim(), "close")
    story.submit("ada")
    story.judge(story.claim(), "wrong")
    ada = story.state.agents["ada"]
    assert (story.directive("ada"), ada.r, ada.branch, ada.drafts) == ("RESTORE", 0, "s003", 1)


def test_another_agents_keep_changes_no_counter_and_no_branch() -> None:
    story = Story()
    story.submit("ada")
    story.judge(story.claim(), "close")
    story.submit("bob")
    story.judge(story.claim(), "promising", "kept")
    ada = story.state.agents["ada"]
    assert (story.state.record.ticket, ada.r, ada.branch) == ("s002", 1, "s001")


def staked(story: Story, agent: str, ticket: str) -> None:
    """Bring a claim as far as its stake."""
    story.add(Screened(result=screen_result("promising")), agent, ticket)
    amount = story.state.stake_of(agent)
    left = story.state.wealth[agent] - amount
    story.add(Staked(amount=amount, wealth=left), agent, ticket)


def test_a_keep_against_a_record_that_moved_is_compared_again_uncharged() -> None:
    story = Story()
    first, second = story.submit("ada"), story.submit("bob")
    story.claim()
    story.claim()
    staked(story, "bob", second)
    story.judge(first, "promising", "kept")
    story.add(Confirmed(result=confirm_result("kept")), "bob", second)
    with pytest.raises(Inconsistent, match="the record had moved"):
        story.settle(second, outcome(story.state, story.state.attempts[second]))


def test_the_comparison_with_the_moved_record_is_queued_and_the_stake_comes_back() -> None:
    story = Story()
    first, second = story.submit("ada"), story.submit("bob")
    story.claim()
    story.claim()
    before = story.state.wealth["bob"]
    staked(story, "bob", second)
    story.judge(first, "promising", "kept")
    story.add(Confirmed(result=confirm_result("kept")), "bob", second)
    story.add(Interrupted(cause="record_moved", detail=""), "bob", second)
    assert story.state.queue() == [second] and story.state.used == 2
    assert story.state.wealth["bob"] == pytest.approx(before, rel=1e-15)
    assert story.claim() == second
    assert story.state.attempts[second].against == first


def test_nothing_is_staked_on_a_record_that_is_none_any_more() -> None:
    story = Story()
    first, second = story.submit("ada"), story.submit("bob")
    story.claim()
    story.claim()
    story.add(Screened(result=screen_result("promising")), "bob", second)
    with pytest.raises(Inconsistent, match="what stood against it was nothing"):
        story.add(Interrupted(cause="record_moved", detail=""), "bob", second)
    story.forget()
    story.judge(first, "promising", "kept")
    before = story.state.wealth["bob"]
    with pytest.raises(Inconsistent, match="nothing is staked: record_moved"):
        amount = story.state.stake_of("bob")
        story.add(Staked(amount=amount, wealth=before - amount), "bob", second)
    story.forget()
    story.add(Interrupted(cause="record_moved", detail=""), "bob", second)
    assert story.claim() == second and story.state.wealth["bob"] == before


def test_what_lost_against_a_record_that_moved_says_which_it_was_compared_with() -> None:
    story = Story()
    first, second = story.submit("ada"), story.submit("bob")
    story.claim()
    story.claim()
    story.judge(first, "promising", "kept")
    story.judge(second, "close")
    assert story.state.attempts[second].verdict == "ACCEPT"
    assert story.state.attempts[second].detail == (
        "It was compared with seed, the record when its judgement began; s001 is the record now."
    )


def test_of_one_agent_no_more_are_judged_at_a_time_than_the_campaign_allows() -> None:
    story = Story(in_flight=2)
    for agent in ("ada", "ada", "ada", "ada", "bob"):
        story.submit(agent)
    assert [story.claim() for _ in range(3)] == ["s001", "s005", "s002"]
    assert story.state.next_queued() == "" and story.state.queue() == ["s003", "s004"]
    story.judge("s002", "close")
    assert story.claim() == "s003"


def test_a_stake_that_was_out_when_the_dispatcher_died_is_lost() -> None:
    story = Story()
    ticket = story.submit("ada")
    story.claim()
    story.add(Screened(result=screen_result("promising")), "ada", ticket)
    before = story.state.wealth["ada"]
    amount = story.state.stake_of("ada")
    story.add(Staked(amount=amount, wealth=before - amount), "ada", ticket)
    story.add(Interrupted(cause="dispatcher_lost", detail=""), "ada", ticket)
    assert story.state.wealth["ada"] == before - amount


def test_replaying_the_same_rows_gives_the_same_state() -> None:
    story = Story(pool=True)
    for screen in ("close", "promising", "broken", "wrong", "slower"):
        story.submit("bob")
        story.judge(story.claim(), screen)
    again, previous, events = CampaignState(), story.state, []
    now = datetime(2026, 1, 1, tzinfo=UTC)
    head = again.head
    for number, (body, agent, submission) in enumerate(story.rows, start=1):
        now += timedelta(seconds=1)
        row = seal(number, now.isoformat(), agent, submission, body, head)
        head = row.hash
        events.append(read(row))
    assert replay(events) == previous


def test_limits_on_time_stop_every_agent() -> None:
    story = Story(wall_seconds=60.0)
    story.submit("ada")
    story.now += timedelta(seconds=120)
    assert story.directive("bob") == "STOP"
    with pytest.raises(Inconsistent, match="a limit was reached"):
        story.submit("bob")
