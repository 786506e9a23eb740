"""The KEEP rule: laws it must obey, numbers it is known by, and a seeded campaign of noise."""

import math
import random
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from kernelarc_guard.decide import (
    Calibration,
    Decision,
    Parameters,
    calibrate_from,
    confirm,
    confirmation_plan,
    goal,
    pair_value,
    replay_confirm,
    replay_screen,
    resolution,
    screen,
    workload_values,
)
from kernelarc_guard.signed_rank import critical_sum, lower_bound, tail_counts

P = Parameters()
STAKE = P.wealth * P.fraction

# The first use of a quantile imports scipy: no deadline for a single example.
law = settings(deadline=None, max_examples=60)

nanoseconds = st.integers(min_value=1_000, max_value=10_000_000)
percents = st.floats(min_value=-400, max_value=400, allow_nan=False)


def noise(sd: float, delta: float = 0.3) -> Calibration:
    """A calibration with one spread for both phases."""
    return Calibration(
        device="cpu",
        problem="0" * 64,
        at="2026-01-01T00:00:00Z",
        pairs=8,
        blocks_screen=4,
        blocks_confirm=8,
        sd_screen=sd,
        sd_confirm=sd,
        delta=delta,
        mean=0.0,
        values=[0.0] * 8,
    )


def run_screen(values: Sequence[float], calibration: Calibration) -> Decision | None:
    """Feed the pairs one by one, as the guard does."""
    for k in range(1, len(values) + 1):
        decision = screen(values[:k], P, calibration, STAKE)
        if decision is not None:
            return decision
    return None


def run_confirm(
    values: Sequence[float],
    calibration: Calibration,
    workloads: Sequence[Sequence[float]] | None = None,
    stake: float = STAKE,
) -> Decision | None:
    """Feed the pairs one by one, as the guard does."""
    per_workload = [[v] for v in values] if workloads is None else workloads
    for k in range(1, len(values) + 1):
        decision = confirm(values[:k], per_workload[:k], P, calibration, stake)
        if decision is not None:
            return decision
    return None


@st.composite
def pair_blocks(draw: st.DrawFn, workloads: int = 3) -> list[Any]:
    arm = st.lists(
        st.lists(nanoseconds, min_size=1, max_size=4), min_size=workloads, max_size=workloads
    )
    return draw(st.lists(st.tuples(arm, arm), min_size=1, max_size=9))


WEIGHTS = (0.5, 0.3, 0.2)


@law
@given(pair_blocks())
def test_swapping_the_arms_negates_a_pair_exactly(blocks: list[Any]) -> None:
    swapped = [(candidate, record) for record, candidate in blocks]
    assert pair_value(swapped, WEIGHTS) == -pair_value(blocks, WEIGHTS)
    assert workload_values(swapped, 3) == [-v for v in workload_values(blocks, 3)]


@law
@given(pair_blocks())
def test_a_pair_of_equal_arms_is_worth_nothing(blocks: list[Any]) -> None:
    same = [(record, record) for record, _ in blocks]
    assert pair_value(same, WEIGHTS) == 0
    assert workload_values(same, 3) == [0, 0, 0]


@law
@given(pair_blocks(), st.integers(min_value=2, max_value=1000))
def test_scaling_both_arms_changes_nothing(blocks: list[Any], factor: int) -> None:
    def scaled(arm: list[list[int]]) -> list[list[int]]:
        return [[t * factor for t in calls] for calls in arm]

    longer = [(scaled(r), scaled(c)) for r, c in blocks]
    assert pair_value(longer, WEIGHTS) == pytest.approx(pair_value(blocks, WEIGHTS), abs=1e-9)


@law
@given(pair_blocks(), st.permutations([0, 1, 2]))
def test_the_order_of_workloads_does_not_matter_when_their_weights_move_along(
    blocks: list[Any], order: list[int]
) -> None:
    moved = [([r[i] for i in order], [c[i] for i in order]) for r, c in blocks]
    weights = [WEIGHTS[i] for i in order]
    assert pair_value(moved, weights) == pytest.approx(pair_value(blocks, WEIGHTS), abs=1e-9)
    original = workload_values(blocks, 3)
    assert workload_values(moved, 3) == [original[i] for i in order]


def test_a_pair_drops_its_outlying_blocks() -> None:
    usual = ([[1010]], [[1000]])
    stray = ([[9000]], [[1000]])
    assert pair_value([usual, stray, usual, usual], [1.0]) == pytest.approx(100 * math.log(1.01))
    assert pair_value([usual, stray, usual], [1.0]) > 50


@pytest.mark.parametrize(
    ("block", "says"),
    [
        (([[10], [10]], [[10]]), "workloads"),
        (([[10]], [[10]]), "workloads"),
        (([[10], []], [[10], [10]]), "no timed call"),
        (([[10], [0]], [[10], [10]]), "cannot take 0 ns"),
        (([[10], [10]], [[10], [-5]]), "cannot take -5 ns"),
    ],
)
def test_a_pair_without_all_its_times_is_an_error(block: Any, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        pair_value([block], [0.5, 0.5])
    with pytest.raises(ValueError, match=says):
        workload_values([block], 2)


def test_a_pair_without_blocks_or_weights_is_an_error() -> None:
    with pytest.raises(ValueError, match="no block"):
        pair_value([], [1.0])
    for weights in ([0.0], [-1.0], [math.nan]):
        with pytest.raises(ValueError, match="weights"):
            pair_value([([[10]], [[10]])], weights)


@law
@given(st.lists(percents, min_size=32, max_size=32), st.floats(0.05, 3.0))
def test_never_do_both_arms_win(values: list[float], sd: float) -> None:
    there = run_confirm(values, noise(sd))
    back = run_confirm([-v for v in values], noise(sd))
    assert there is not None and back is not None
    assert {there.outcome, back.outcome} != {"KEEP"}
    if there.pairs == back.pairs:
        assert there.mean_percent == -back.mean_percent


@law
@given(st.floats(-0.3, 0.3), st.floats(0.05, 3.0))
def test_equal_samples_are_never_kept(bias: float, sd: float) -> None:
    decision = run_confirm([bias] * 32, noise(sd))
    assert decision is not None and decision.outcome != "KEEP"


@law
@given(st.lists(percents, min_size=32, max_size=32), st.floats(0.05, 3.0), st.randoms())
def test_the_order_of_pairs_within_a_look_does_not_matter(
    values: list[float], sd: float, chance: random.Random
) -> None:
    looks = confirmation_plan(P, noise(sd), STAKE)
    moved: list[float] = []
    for look in looks:
        part = values[len(moved) : look.pairs]
        chance.shuffle(part)
        moved += part
    assert run_confirm(values[: len(moved)], noise(sd)) == run_confirm(moved, noise(sd))


@law
@given(st.lists(percents, min_size=32, max_size=32), st.floats(0.05, 3.0))
def test_the_same_pairs_give_the_same_bytes(values: list[float], sd: float) -> None:
    for run in (run_screen, run_confirm):
        first, second = run(values, noise(sd)), run(list(values), noise(sd))
        assert first is not None and second is not None
        text = first.model_dump_json()
        assert text == second.model_dump_json()
        assert Decision.model_validate_json(text).model_dump_json() == text


@law
@given(st.lists(percents, min_size=32, max_size=32), st.floats(0.05, 3.0))
def test_a_replay_accepts_exactly_the_series_that_was_measured(
    values: list[float], sd: float
) -> None:
    calibration = noise(sd)
    screened = run_screen(values, calibration)
    assert screened is not None
    k = screened.pairs
    assert replay_screen(values[:k], P, calibration, STAKE) == screened
    with pytest.raises(ValueError, match="stopped after"):
        replay_screen(values[: k + 1], P, calibration, STAKE)
    with pytest.raises(ValueError, match="before the rule has decided"):
        replay_screen(values[: k - 1], P, calibration, STAKE)

    confirmed = run_confirm(values, calibration)
    assert confirmed is not None
    n, workloads = confirmed.pairs, [[v] for v in values]
    assert replay_confirm(values[:n], workloads[:n], P, calibration, STAKE) == confirmed
    if n < len(values):
        with pytest.raises(ValueError, match="stopped after"):
            replay_confirm(values[: n + 1], workloads[: n + 1], P, calibration, STAKE)
    with pytest.raises(ValueError, match="before the rule has decided"):
        replay_confirm(values[: n - 1], workloads[: n - 1], P, calibration, STAKE)


def test_a_value_that_no_clock_can_give_is_an_error() -> None:
    for value in (math.nan, math.inf, -math.inf, 1e6):
        with pytest.raises(ValueError, match="cannot be"):
            screen([value], P, noise(0.2), STAKE)
        with pytest.raises(ValueError, match="cannot be"):
            confirm([value], [[0.0]], P, noise(0.2), STAKE)


def test_a_confirmation_lacking_a_workload_is_an_error() -> None:
    with pytest.raises(ValueError, match="2 pairs, but workload values of 1"):
        confirm([1.0, 1.0], [[1.0]], P, noise(0.2), STAKE)
    with pytest.raises(ValueError, match="every workload"):
        confirm([1.0, 1.0], [[1.0, 1.0], [1.0]], P, noise(0.2), STAKE)


def test_the_looks_at_the_first_stake_are_the_published_ones() -> None:
    wide = confirmation_plan(P, noise(1.0), STAKE)
    assert [(look.pairs, look.test) for look in wide] == [(7, "T"), (14, "W"), (32, "W")]
    assert math.fsum(look.level for look in wide) == pytest.approx(STAKE)
    narrow = confirmation_plan(P, noise(0.1), STAKE)
    assert [(look.pairs, look.test) for look in narrow] == [(7, "T"), (12, "W")]
    assert math.fsum(look.level for look in narrow) == pytest.approx(STAKE)


@law
@given(st.floats(1e-300, 0.999), st.floats(0.05, 50), st.floats(0, 20))
def test_every_stake_has_a_plan_within_the_most_pairs(
    stake: float, sd: float, delta: float
) -> None:
    calibration = noise(sd, delta)
    plan = confirmation_plan(P, calibration, stake)
    sizes = [look.pairs for look in plan]
    assert sizes == sorted(set(sizes)) and sizes[-1] <= P.n_max
    assert goal(P, calibration, stake) > max(P.delta, delta)
    assert run_confirm([25.0] * 32, calibration, stake=stake) is not None


def test_a_stake_outside_zero_and_one_is_an_error() -> None:
    for stake in (0.0, 1.0, -0.1, math.nan):
        with pytest.raises(ValueError, match="stake"):
            goal(P, noise(0.2), stake)


def test_the_goal_is_the_target_until_the_noise_hides_it() -> None:
    assert goal(P, noise(0.2), STAKE) == P.target > resolution(P, noise(0.2), STAKE)
    assert goal(P, noise(2.0), STAKE) == resolution(P, noise(2.0), STAKE) > P.target


def test_the_signed_rank_table_is_that_of_scipy() -> None:
    from scipy import stats

    chance = random.Random(7)
    for n in (5, 9, 14, 23):
        for _ in range(20):
            values = [chance.gauss(0.3, 1.0) for _ in range(n)]
            ranks = sorted(range(n), key=lambda i: abs(values[i]))
            positive = sum(rank for rank, i in enumerate(ranks, 1) if values[i] > 0)
            exact = stats.wilcoxon(values, alternative="greater", method="exact").pvalue
            assert tail_counts(n)[positive] / 2**n == pytest.approx(exact, rel=1e-12)


def test_the_signed_rank_bound_excludes_zero_exactly_when_the_test_rejects() -> None:
    chance = random.Random(11)
    for _ in range(300):
        n, level = chance.randint(5, 16), chance.choice([0.1, 0.05, 0.01, 1e-3])
        values = [chance.gauss(0.5, 1.0) for _ in range(n)]
        ranks = sorted(range(n), key=lambda i: abs(values[i]))
        positive = sum(rank for rank, i in enumerate(ranks, 1) if values[i] > 0)
        bound = lower_bound(values, level)
        rejects = tail_counts(n)[positive] <= level * 2**n
        assert (bound is not None and bound > 0) == rejects


def test_too_few_signs_have_no_bound() -> None:
    assert critical_sum(4, 0.01) is None and lower_bound([1.0, 2.0, 3.0, 4.0], 0.01) is None
    assert critical_sum(7, 2**-7) == 28 and lower_bound([float(v) for v in range(7)], 2**-7) == 0


def test_the_quantiles_are_those_of_scipy_stats() -> None:
    from scipy import stats

    calibration = noise(0.4)
    decision = run_confirm([5.0] * 7, calibration)
    assert decision is not None and decision.lower_percent is not None
    expected = 5 - stats.t.isf(0.1 * STAKE, 6) * 0.4 / math.sqrt(7)
    assert decision.lower_percent == pytest.approx(expected, rel=1e-8)
    blocks = [[v] * 8 for v in (0.1, 0.5, -0.2, 0.3, 0.0, -0.4, 0.2, 0.1)]
    measured = calibrate_from("cpu", "p", "t", [blocks], 1.0, 0.1, P)
    sd = math.sqrt(sum((b[0] - 0.075) ** 2 for b in blocks) / 7)
    assert measured.sd_confirm == pytest.approx(sd * math.sqrt(7 / stats.chi2.ppf(0.2, 7)))


def test_a_large_gain_is_kept_after_seven_confirming_pairs() -> None:
    chance = random.Random(3)
    for gain in (5.0, 70.0, 300.0):
        values = [gain + chance.gauss(0, 0.3) for _ in range(7)]
        screened = run_screen(values, noise(0.4))
        assert screened is not None
        assert (screened.outcome, screened.reason, screened.pairs) == ("promising", None, 1)
        kept = run_confirm(values, noise(0.4))
        assert kept is not None
        assert (kept.outcome, kept.reason, kept.pairs, kept.look) == ("KEEP", "confirmed", 7, 1)
        assert kept.lower is not None and 1 < kept.lower < kept.speedup
        assert kept.speedup == pytest.approx(math.exp(gain / 100), rel=0.01)


def test_a_much_slower_candidate_is_dismissed_after_one_pair() -> None:
    decision = run_screen([-20.0], noise(0.4))
    assert decision is not None
    assert (decision.outcome, decision.reason, decision.blocks) == ("REVERT", "slower", 4)


def test_a_screen_ends_with_its_twelfth_pair_at_the_latest() -> None:
    chance = random.Random(5)
    for _ in range(300):
        gain, sd = chance.uniform(-4, 4), chance.uniform(0.05, 4)
        decision = run_screen([chance.gauss(gain, sd) for _ in range(12)], noise(sd))
        assert decision is not None and decision.look is None and decision.lower is None


def test_candidates_near_the_record_are_accepted_and_never_promoted() -> None:
    for gain in (0.0, -0.9):
        decision = run_screen([gain, gain], noise(0.2))
        assert decision is not None
        assert (decision.outcome, decision.reason) == ("ACCEPT", "close_to_record")
    unclear = run_screen([-2.0] * 12, noise(0.2))
    assert unclear is not None
    assert (unclear.outcome, unclear.reason) == ("REVERT", "not_proven_close")


def test_an_unproven_gain_is_accepted_and_an_unproven_tie_is_not() -> None:
    faded = run_confirm([0.0] * 7, noise(0.2))
    assert faded is not None
    assert (faded.outcome, faded.reason, faded.look) == ("ACCEPT", "gain_not_confirmed", 1)
    worse = run_confirm([-3.0] * 7, noise(0.2))
    assert worse is not None
    assert (worse.outcome, worse.reason) == ("REVERT", "not_proven_close")


def test_a_gain_that_slows_one_workload_is_denied() -> None:
    chance = random.Random(13)
    values, workloads = [], []
    for _ in range(7):
        gains = [40.0, -10.0]
        pair = [g + chance.gauss(0, 0.3) for g in gains]
        workloads.append(pair)
        values.append(sum(pair) / 2)
    denied = run_confirm(values, noise(0.4), workloads)
    assert denied is not None
    assert (denied.outcome, denied.reason) == ("REVERT", "workload_regressed")
    assert "Workload 1" in denied.detail
    tolerable = [[a, b + 9] for a, b in workloads]
    kept = run_confirm(values, noise(0.4), tolerable)
    assert kept is not None and kept.outcome == "KEEP"


def test_between_looks_another_pair_is_asked_for() -> None:
    calibration = noise(0.42)
    values = [0.7 + 0.3 * (-1) ** i for i in range(32)]
    asked = [
        confirm(values[:n], [[v] for v in values[:n]], P, calibration, STAKE) is None
        for n in range(1, 14)
    ]
    assert all(asked)


def test_a_calibration_chooses_blocks_by_where_the_noise_is() -> None:
    chance = random.Random(17)

    def pairs(between: float, within: float) -> list[list[float]]:
        offsets = [chance.gauss(0, between) for _ in range(12)]
        return [[o + chance.gauss(0, within) for _ in range(8)] for o in offsets]

    noisy_blocks = calibrate_from("cpu", "p", "t", [pairs(0.05, 2.0)], 1.0, 0.1, P)
    assert (noisy_blocks.blocks_screen, noisy_blocks.blocks_confirm) == (4, 8)
    noisy_pairs = calibrate_from("cpu", "p", "t", [pairs(2.0, 0.05)], 0.1, 0.1, P)
    assert (noisy_pairs.blocks_screen, noisy_pairs.blocks_confirm) == (1, 1)
    assert "One nursery" in noisy_pairs.note
    assert noisy_blocks.sd_confirm < noisy_pairs.sd_confirm
    assert len(noisy_blocks.values) == noisy_blocks.pairs == 12


def test_a_calibration_without_any_noise_keeps_a_floor() -> None:
    flat = calibrate_from("cpu", "p", "t", [[[0.0] * 4] * 8], 1.0, 0.1, P)
    assert flat.sd_screen == flat.sd_confirm == P.least_sd
    assert run_confirm([300.0] * 7, flat) is not None


def test_a_calibration_says_when_its_path_looks_biased() -> None:
    chance = random.Random(19)
    blocks = [[0.8 + chance.gauss(0, 0.1) for _ in range(8)] for _ in range(8)]
    assert "biased" in calibrate_from("cpu", "p", "t", [blocks], 1.0, 0.1, P).note


def test_a_calibration_needs_two_pairs_that_took_time() -> None:
    with pytest.raises(ValueError, match="two pairs"):
        calibrate_from("cpu", "p", "t", [[[0.1, 0.2]]], 1.0, 0.1, P)
    with pytest.raises(ValueError, match="take time"):
        calibrate_from("cpu", "p", "t", [[[0.1], [0.2]]], 0.0, 0.1, P)


@law
@given(st.floats(0.0, 1.0), st.floats(0.0, 1.0), st.floats(0.0, 1.0))
def test_shares_that_do_not_add_up_are_refused(a: float, b: float, c: float) -> None:
    assume(abs(a + b + c - 1) > 1e-6 or min(a, b, c) <= 0)
    with pytest.raises(ValueError, match="shares"):
        Parameters(shares=(a, b, c))


@pytest.mark.parametrize("law", ["normal", "heavy", "stepped"])
def test_noise_alone_is_never_kept_and_a_real_gain_is(law: str) -> None:
    """Two hundred submissions of each kind, half of them forced past the screen."""
    chance = random.Random(23)

    def draw() -> float:
        sample = chance.gauss(0, 0.4)
        if law == "heavy":
            return sample / math.sqrt(chance.gammavariate(2.0, 0.5))
        if law == "stepped" and chance.random() < 0.1:
            return sample + chance.choice([-5, 5])
        return sample

    calibration = calibrate_from(
        "cpu", "p", "t", [[[draw() for _ in range(8)] for _ in range(12)]], 0.1, 0.1, P
    )
    kept = {0.0: 0, 4.0: 0}
    for gain in kept:
        for i in range(200):
            screened = run_screen([gain + draw() for _ in range(12)], calibration)
            assert screened is not None
            if screened.outcome == "promising" or i % 2:
                confirmed = run_confirm([gain + draw() for _ in range(32)], calibration)
                assert confirmed is not None
                kept[gain] += confirmed.outcome == "KEEP"
    assert kept[0.0] == 0
    assert kept[4.0] >= 150
