"""The simulation of a fleet against arithmetic and against queues whose answer is known."""

import math
import random
from statistics import mean

import pytest

from benchmarks.fleet_model import Costs, Fleet, deck, jain, simulate
from benchmarks.recorded_cases import Case

EXACT = Case("REVERT", screen=4.0)


def test_eight_lanes_with_four_agents_each_that_never_think_are_busy_and_serve_in_turn() -> None:
    fleet = Fleet(lanes=8, agents=32, think=lambda _: 0.0, draw=lambda _: EXACT)
    seen = simulate(fleet, seed=1, seconds=400.0, warm=40.0)
    assert seen.busy == pytest.approx(8 * 400.0)
    assert seen.verdicts == 8 * 400 / 4
    # Three others of each lane's four agents are first: 12 s, and 4 s of its own.
    assert {round(wait, 6) for wait in seen.waits} == {12.0}
    assert {round(wait, 6) for wait in seen.answers} == {16.0}
    assert jain(list(seen.by_agent.values())) == pytest.approx(1.0, abs=1e-3)


def test_random_times_give_what_the_formula_for_finitely_many_sources_gives() -> None:
    lanes, agents, think, service = 8, 32, 12.0, 4.0
    weights = [1.0]
    for busy in range(1, agents + 1):
        arriving = (agents - busy + 1) / think
        weights.append(weights[-1] * arriving * service / min(busy, lanes))
    at_work = sum(min(n, lanes) * w for n, w in enumerate(weights)) / sum(weights)
    waiting = sum(max(0, n - lanes) * w for n, w in enumerate(weights)) / sum(weights)
    fleet = Fleet(
        lanes=lanes,
        agents=agents,
        think=lambda chance: chance.expovariate(1 / think),
        draw=lambda chance: Case("REVERT", screen=chance.expovariate(1 / service)),
    )
    seen = simulate(fleet, seed=0, seconds=8_000.0, warm=200.0)
    assert seen.busy / 8_000.0 == pytest.approx(at_work, rel=0.02)
    # Little's law: who waits, by how many come.
    assert mean(seen.waits) == pytest.approx(waiting / (at_work / service), rel=0.1)


def test_one_lane_with_many_agents_waits_as_a_queue_with_a_fixed_service_time() -> None:
    # M/D/1, as arrivals of many agents who think long are all but independent of each other.
    load, agents = 0.6, 1000
    think = agents * 1.0 / load
    fleet = Fleet(
        lanes=1,
        agents=agents,
        think=lambda chance: chance.expovariate(1 / think),
        draw=lambda _: Case("REVERT", screen=1.0),
    )
    seen = simulate(fleet, seed=3, seconds=8_000.0, warm=100.0)
    assert mean(seen.waits) == pytest.approx(load / (2 * (1 - load)), rel=0.1)


def test_a_server_that_writes_too_slowly_is_what_the_lanes_wait_for() -> None:
    costs = Costs(submit=0.5, claim=0.5, screened=1.0)
    fleet = Fleet(lanes=8, agents=32, think=lambda _: 0.0, draw=lambda _: EXACT, costs=costs)
    seen = simulate(fleet, seed=1, seconds=400.0, warm=100.0)
    assert sum(seen.server.values()) == pytest.approx(400.0, abs=1.0)
    assert seen.verdicts == pytest.approx(400.0 / 2.0, abs=2)


def test_a_keep_on_a_record_that_moved_is_compared_again_and_the_same_seed_says_the_same() -> None:
    fleet = Fleet(
        lanes=8,
        agents=32,
        think=lambda _: 1.0,
        draw=deck([EXACT, Case("KEEP", screen=2.0, confirm=6.0)], keeps=0.5),
        spread=3.0,
    )
    seen = simulate(fleet, seed=5, seconds=300.0, warm=30.0)
    assert seen.repeats > 0 and 0 < seen.wasted < seen.busy <= 8 * 300.0
    assert seen.keeps > 10 and seen.duties > 0
    assert seen == simulate(fleet, seed=5, seconds=300.0, warm=30.0)
    assert seen != simulate(fleet, seed=6, seconds=300.0, warm=30.0)


def test_every_agent_gets_as_much_whoever_has_more_in_the_queue() -> None:
    fleet = Fleet(lanes=4, agents=20, think=lambda _: 0.5, draw=lambda _: EXACT, in_flight=8)
    seen = simulate(fleet, seed=1, seconds=1_000.0, warm=100.0)
    shares = [seen.by_agent[agent] / seen.verdicts * 20 for agent in seen.by_agent]
    assert max(shares) < 1.1 and jain(shares) > 0.99


def test_jains_index() -> None:
    assert jain([3, 3, 3]) == 1.0
    assert math.isclose(jain([1, 0, 0, 0]), 0.25)
    chance = random.Random(1)
    assert 0.7 < jain([chance.random() for _ in range(100)]) < 0.8
