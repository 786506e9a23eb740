"""Laws of a whole judgement, from raw call times to the decision."""

import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kernelarc_guard.decide import (
    Calibration,
    Decision,
    Parameters,
    confirm,
    confirmation_plan,
    pair_value,
    screen,
    workload_values,
)
from kernelarc_guard.pairs import Block
from kernelarc_guard.signed_rank import critical_sum, lower_bound

P = Parameters()
STAKE = P.wealth * P.fraction
WEIGHTS = (0.5, 0.3, 0.2)
WORKLOADS = len(WEIGHTS)

law = settings(deadline=None, max_examples=50)
Pairs = list[list[Block]]


def noise(sd: float) -> Calibration:
    return Calibration(
        device="cpu",
        problem="0" * 64,
        at="2026-01-01T00:00:00Z",
        pairs=8,
        blocks_screen=2,
        blocks_confirm=4,
        sd_screen=sd,
        sd_confirm=sd,
        delta=0.3,
        mean=0.0,
        values=[0.0] * 8,
    )


@st.composite
def comparisons(draw: st.DrawFn) -> tuple[Pairs, float]:
    """Raw times of as many pairs as any judgement takes, and the spread they have."""
    chance = random.Random(draw(st.integers(0, 2**32)))
    gain = draw(st.sampled_from([-20, -3, -2, -1, 0, 0.3, 0.6, 1, 2, 5, 20]))
    sd = draw(st.sampled_from([0.05, 0.2, 0.6, 2.0]))
    pairs: Pairs = []
    for _ in range(P.n_max):
        offset = 1 - (gain + chance.gauss(0, sd)) / 100
        pairs.append(
            [
                (
                    [[chance.randrange(99_000, 101_000) for _ in range(3)] for _ in WEIGHTS],
                    [[round(offset * chance.randrange(99_000, 101_000))] * 3 for _ in WEIGHTS],
                )
                for _ in range(4)
            ]
        )
    return pairs, sd


def judged(
    pairs: Pairs, sd: float, op: str, weights: tuple[float, ...] = WEIGHTS
) -> Decision | None:
    """Feed the pairs one by one, as the guard does; None where all of them do not decide."""
    calibration = noise(sd)
    values: list[float] = []
    by_workload: list[list[float]] = []
    for pair in pairs:
        values.append(pair_value(pair, weights))
        by_workload.append(workload_values(pair, len(weights)))
        decision = (
            screen(values, P, calibration, STAKE)
            if op == "screen"
            else confirm(values, by_workload, P, calibration, STAKE)
        )
        if decision is not None:
            return decision
    return None


def swapped(pairs: Pairs) -> Pairs:
    return [[(candidate, record) for record, candidate in pair] for pair in pairs]


both = st.sampled_from(["screen", "confirm"])


@law
@given(comparisons())
def test_a_comparison_and_its_swap_are_never_both_kept(made: tuple[Pairs, float]) -> None:
    pairs, sd = made
    there, back = judged(pairs, sd, "confirm"), judged(swapped(pairs), sd, "confirm")
    assert there is not None and back is not None
    assert {there.outcome, back.outcome} != {"KEEP"}
    if there.pairs == back.pairs:
        assert there.mean_percent == -back.mean_percent
        assert there.speedup == pytest.approx(1 / back.speedup)
        if there.lower_percent is not None and back.lower_percent is not None:
            assert there.lower_percent <= there.mean_percent <= -back.lower_percent


@law
@given(st.lists(st.floats(-50, 50), min_size=5, max_size=20), st.floats(0.001, 0.4))
def test_swapping_the_arms_turns_the_lower_bound_into_the_upper_one(
    values: list[float], level: float
) -> None:
    w = critical_sum(len(values), level)
    back = lower_bound([-value for value in values], level)
    averages = sorted((a + b) / 2 for i, a in enumerate(values) for b in values[i:])
    assert back == (None if w is None else -averages[w - 1])


@law
@given(comparisons(), both)
def test_a_candidate_with_the_records_own_times_is_never_kept(
    made: tuple[Pairs, float], op: str
) -> None:
    pairs, sd = made
    same: Pairs = [[(record, record) for record, _ in pair] for pair in pairs]
    decision = judged(same, sd, op)
    assert decision is not None and decision.outcome in {"ACCEPT", "REVERT"}
    assert decision.mean_percent == 0 and decision.speedup == 1


@law
@given(comparisons(), both, st.data())
def test_a_comparison_that_lacks_a_workload_decides_nothing(
    made: tuple[Pairs, float], op: str, data: st.DataObject
) -> None:
    pairs, sd = made
    complete = judged(pairs, sd, op)
    assert complete is not None
    pair = data.draw(st.integers(0, complete.pairs - 1))
    block = data.draw(st.integers(0, 3))
    workload = data.draw(st.integers(0, WORKLOADS - 1))
    arms: list[Any] = [list(arm) for arm in pairs[pair][block]]
    arm = data.draw(st.integers(0, 1))
    if data.draw(st.booleans()):
        del arms[arm][workload]
    else:
        arms[arm][workload] = []
    pairs[pair][block] = (arms[0], arms[1])
    with pytest.raises(ValueError, match="workloads, not 3|no timed call"):
        judged(pairs, sd, op)


@law
@given(comparisons(), st.data())
def test_values_that_lack_a_workload_confirm_nothing(
    made: tuple[Pairs, float], data: st.DataObject
) -> None:
    pairs, sd = made
    values = [pair_value(pair, WEIGHTS) for pair in pairs[: P.fast_pairs]]
    by_workload = [workload_values(pair, WORKLOADS) for pair in pairs[: P.fast_pairs]]
    del by_workload[data.draw(st.integers(0, P.fast_pairs - 1))][-1]
    with pytest.raises(ValueError, match="every workload"):
        confirm(values, by_workload, P, noise(sd), STAKE)


@law
@given(comparisons(), both, st.integers(2, 1000))
def test_a_clock_that_ticks_faster_changes_no_decision(
    made: tuple[Pairs, float], op: str, factor: int
) -> None:
    pairs, sd = made
    scaled: Pairs = [
        [
            (
                [[t * factor for t in calls] for calls in record],
                [[t * factor for t in calls] for calls in candidate],
            )
            for record, candidate in pair
        ]
        for pair in pairs
    ]
    before, after = judged(pairs, sd, op), judged(scaled, sd, op)
    assert before is not None and after is not None
    assert (before.outcome, before.reason) == (after.outcome, after.reason)
    assert (before.pairs, before.look) == (after.pairs, after.look)
    assert after.mean_percent == pytest.approx(before.mean_percent, abs=1e-9)


@law
@given(comparisons(), both, st.permutations(range(WORKLOADS)))
def test_workloads_may_come_in_any_order_with_their_weights(
    made: tuple[Pairs, float], op: str, order: list[int]
) -> None:
    pairs, sd = made
    moved: Pairs = [
        [([record[i] for i in order], [candidate[i] for i in order]) for record, candidate in pair]
        for pair in pairs
    ]
    before = judged(pairs, sd, op)
    after = judged(moved, sd, op, tuple(WEIGHTS[i] for i in order))
    assert before is not None and after is not None
    # The detail may name a workload, by its place.
    hidden = {"detail"}
    assert before.model_dump_json(exclude=hidden) == after.model_dump_json(exclude=hidden)


@law
@given(comparisons(), st.randoms())
def test_pairs_may_come_in_any_order_between_two_looks(
    made: tuple[Pairs, float], chance: random.Random
) -> None:
    pairs, sd = made
    moved: Pairs = []
    for look in confirmation_plan(P, noise(sd), STAKE):
        part = pairs[len(moved) : look.pairs]
        chance.shuffle(part)
        moved += part
    before, after = judged(pairs[: len(moved)], sd, "confirm"), judged(moved, sd, "confirm")
    assert before is not None and after is not None
    assert before.model_dump_json() == after.model_dump_json()


@law
@given(comparisons(), st.randoms())
def test_the_blocks_of_a_pair_may_come_in_any_order(
    made: tuple[Pairs, float], chance: random.Random
) -> None:
    pairs, sd = made
    moved = [chance.sample(pair, len(pair)) for pair in pairs]
    for op in ("screen", "confirm"):
        before, after = judged(pairs, sd, op), judged(moved, sd, op)
        assert before is not None and after is not None
        assert before.model_dump_json() == after.model_dump_json()
