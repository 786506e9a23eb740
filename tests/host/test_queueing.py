"""The order of the queue, in one pass and as a whole."""

from dataclasses import dataclass

from hypothesis import given
from hypothesis import strategies as st

from kernelarc_mcp.host.queueing import first_in_line, whole_line


@dataclass
class Queued:
    ticket: str
    agent: str
    number: int
    claims: int


@st.composite
def queues(draw: st.DrawFn) -> tuple[list[Queued], dict[str, int]]:
    served = {agent: draw(st.integers(0, 40)) for agent in ("ada", "bob", "eve")}
    drawn = draw(st.lists(st.tuples(st.sampled_from(sorted(served)), st.integers(0, 1))))
    return [
        Queued(f"s{number}", agent, number, claims)
        for number, (agent, claims) in enumerate(drawn, 1)
    ], served


@given(queues())
def test_the_line_is_what_serving_its_first_again_and_again_gives(
    queue: tuple[list[Queued], dict[str, int]],
) -> None:
    waiting, served = queue
    line, left, now = whole_line(waiting, served, 41), list(waiting), dict(served)
    for turn, ticket in enumerate(line, 42):
        assert ticket == first_in_line(left, now)
        (first,) = (one for one in left if one.ticket == ticket)
        left.remove(first)
        now[first.agent] = turn
    assert not left and first_in_line(left, now) == ""


@given(queues(), st.integers(1, 3), st.lists(st.sampled_from(["ada", "bob", "eve"]), max_size=6))
def test_with_several_judged_at_once_a_claim_follows_each_end_and_nobody_has_too_many(
    queue: tuple[list[Queued], dict[str, int]], most: int, drawn: list[str]
) -> None:
    waiting, served = queue
    judging = [agent for n, agent in enumerate(drawn) if drawn[:n].count(agent) < most]
    line = whole_line(waiting, served, 41, judging, most)
    left, now, at_work, expected = list(waiting), dict(served), list(judging), list[str]()
    while left:
        del at_work[:1]
        ticket = first_in_line(left, now, at_work, most)
        for first in [one for one in left if one.ticket == ticket]:
            left.remove(first)
            at_work.append(first.agent)
            expected.append(ticket)
            now[first.agent] = 41 + len(expected)
            assert at_work.count(first.agent) <= most
    assert line == expected


def test_no_agent_waits_while_another_is_served_twice_however_much_that_one_has_queued() -> None:
    many = [Queued(f"a{number}", "ada", number, 0) for number in range(100)]
    few = [Queued("b", "bob", 100, 0), Queued("e", "eve", 101, 0)]
    assert whole_line(many + few, {"ada": 0, "bob": 0, "eve": 0}, 0)[:3] == ["a0", "b", "e"]
