"""The ledger of stakes under any interleaving of agents, open judgements, crashes and retries."""

from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from stories import Story, confirm_result, screen_result

from kernelarc_mcp.host.events import (
    AgentAdded,
    Confirmed,
    Interrupted,
    Registered,
    Screened,
    Settled,
    Staked,
)
from kernelarc_mcp.host.plateau import first_lens
from kernelarc_mcp.host.replay import MAX_RESTARTS
from kernelarc_mcp.host.settle import guard_lost, outcome
from kernelarc_mcp.host.state import Attempt

BUDGET = 0.01


class Staking(RuleBasedStateMachine):
    """Several judgements are open at once; each may move on, be cut off or start again."""

    pool = False

    def __init__(self) -> None:
        super().__init__()
        self.story = Story(pool=self.pool)
        self.lost = 0.0
        """Stakes whose confirmation did not end in a KEEP."""

    def open(self, ready: str) -> list[Attempt]:
        """Return judgements in progress that stand just before this step."""
        return [a for a in self.story.state.judging() if self.step(a) == ready]

    @staticmethod
    def step(attempt: Attempt) -> str:
        if attempt.screen is None:
            return "screen"
        if attempt.reserved is None:
            return "stake"
        return "confirm" if attempt.confirmation is None else "settle"

    @rule(agent=st.sampled_from(["ada", "bob", "eve"]))
    def submit(self, agent: str) -> None:
        state = self.story.state
        if agent in state.agents and state.attempts_left(agent) > 0:
            self.story.submit(agent)

    @precondition(lambda self: "eve" not in self.story.state.agents)
    @rule()
    def an_agent_joins(self) -> None:
        self.story.add(AgentAdded(attempts=None if self.pool else 8), "eve")
        self.story.add(Registered(lens=first_lens(self.story.state)), "eve")

    @precondition(lambda self: self.story.state.next_queued())
    @rule()
    def claim(self) -> None:
        self.story.claim()

    @precondition(lambda self: self.open("screen"))
    @rule(pick=st.integers(0, 9))
    def screen(self, pick: int) -> None:
        attempt = self.chosen("screen", pick)
        self.story.add(Screened(result=screen_result("promising")), attempt.agent, attempt.ticket)

    @precondition(lambda self: self.open("stake"))
    @rule(pick=st.integers(0, 9))
    def stake(self, pick: int) -> None:
        attempt = self.chosen("stake", pick)
        state = self.story.state
        if attempt.against != state.record.ticket:
            moved = Interrupted(cause="record_moved", detail="")
            self.story.add(moved, attempt.agent, attempt.ticket)
            return
        amount = state.stake_of(attempt.agent)
        left = state.wealth[state.share_of(attempt.agent)] - amount
        self.story.add(Staked(amount=amount, wealth=left), attempt.agent, attempt.ticket)

    @precondition(lambda self: self.open("confirm"))
    @rule(pick=st.integers(0, 9), kept=st.booleans())
    def confirm(self, pick: int, kept: bool) -> None:
        attempt = self.chosen("confirm", pick)
        result = confirm_result("kept" if kept else "unproven")
        self.story.add(Confirmed(result=result), attempt.agent, attempt.ticket)

    @precondition(lambda self: self.open("settle"))
    @rule(pick=st.integers(0, 9))
    def settle(self, pick: int) -> None:
        attempt = self.chosen("settle", pick)
        assert attempt.confirmation is not None
        stake = attempt.reserved or 0.0
        kept = attempt.confirmation.verdict == "KEEP"
        if kept and attempt.against != self.story.state.record.ticket:
            moved = Interrupted(cause="record_moved", detail="")
            self.story.add(moved, attempt.agent, attempt.ticket)
            return
        self.story.settle(attempt.ticket, outcome(self.story.state, attempt))
        self.lost += 0.0 if kept else stake

    @precondition(lambda self: self.story.state.judging())
    @rule(pick=st.integers(0, 9), cause=st.sampled_from(["dispatcher_lost", "guard_died"]))
    def cut_off(self, pick: int, cause: str) -> None:
        """A crash at any point: what was staked is lost, and the judgement starts again."""
        judging = self.story.state.judging()
        attempt = judging[pick % len(judging)]
        stake = attempt.reserved or 0.0
        if cause == "guard_died" and attempt.deaths >= MAX_RESTARTS:
            lost: Settled = guard_lost(attempt, "")
            self.story.settle(attempt.ticket, lost)
        else:
            cut = Interrupted.model_validate({"cause": cause, "detail": ""})
            self.story.add(cut, attempt.agent, attempt.ticket)
        self.lost += stake

    def chosen(self, ready: str, pick: int) -> Attempt:
        some = self.open(ready)
        return some[pick % len(some)]

    @invariant()
    def the_budget_is_never_overdrawn(self) -> None:
        state = self.story.state
        assert all(amount >= 0 for amount in state.wealth.values())
        reserved = sum(a.reserved or 0.0 for a in state.attempts.values())
        whole = sum(state.wealth.values()) + reserved + self.lost
        assert abs(whole - BUDGET) <= BUDGET * 1e-9, "no stake appears or disappears"

    @invariant()
    def no_attempt_is_charged_twice(self) -> None:
        state = self.story.state
        assert state.used == sum(agent.used for agent in state.agents.values())
        assert all(state.attempts_left(agent) >= 0 for agent in state.agents)


class PooledStaking(Staking):
    pool = True


_MANY = hypothesis_settings(max_examples=25, stateful_step_count=50, deadline=None)
TestStaking = Staking.TestCase
TestStaking.settings = _MANY
TestPooledStaking = PooledStaking.TestCase
TestPooledStaking.settings = _MANY
