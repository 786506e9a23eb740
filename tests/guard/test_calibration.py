"""Calibration over several nurseries: what it sees of a shared bias, and what it says."""

import random
from statistics import fmean, variance

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kernelarc_guard.calibration import calibrate_from, respread, shared_bias, upper_factor
from kernelarc_guard.decide import Calibration, Parameters, resolution
from kernelarc_guard.pairs import middle_mean

P = Parameters()


def drawn(
    nurseries: int, pairs: int, *, shared: float = 0.0, bias: float = 0.0, sd: float = 0.3
) -> list[list[list[float]]]:
    """Blocks of A/A pairs whose nurseries are each off by their own draw."""
    chance = random.Random(nurseries * 100 + pairs)
    found = []
    for _ in range(nurseries):
        own = bias + chance.gauss(0, shared)
        offsets = [own + chance.gauss(0, sd) for _ in range(pairs)]
        found.append([[o + chance.gauss(0, 0.2) for _ in range(8)] for o in offsets])
    return found


def calibrated(nurseries: list[list[list[float]]]) -> Calibration:
    return calibrate_from("cpu", "p", "t", nurseries, 0.5, 0.01, P)


def test_equal_nurseries_have_the_textbook_bound_of_their_shared_bias() -> None:
    from scipy import stats

    chance = random.Random(1)
    groups = [[own + chance.gauss(0, 0.2) for _ in range(8)] for own in (0.5, -0.4, 0.1, 0.9, -0.6)]
    between = 8 * variance([fmean(group) for group in groups])
    within = fmean(variance(group) for group in groups)
    expected = ((between * 4 / stats.chi2.ppf(0.2, 4) - within) / 8) ** 0.5
    assert shared_bias(groups, 0.8) == pytest.approx(expected)


def test_a_shared_bias_raises_delta_and_the_absence_of_one_leaves_it() -> None:
    leaning = calibrated(drawn(12, 8, shared=0.5))
    assert leaning.shared_bias is not None and leaning.shared_bias > 0.35
    assert leaning.delta == pytest.approx(2 * leaning.shared_bias)
    quiet = calibrated(drawn(12, 8, sd=0.1))
    assert quiet.shared_bias is not None and quiet.shared_bias < 0.1
    assert quiet.delta == P.delta
    assert "12 nurseries" in quiet.note and not quiet.biased


@pytest.mark.parametrize("nurseries", [1, 2])
def test_too_few_nurseries_leave_delta_and_say_why(nurseries: int) -> None:
    found = calibrated(drawn(nurseries, 8, shared=2.0))
    assert (found.delta, found.shared_bias) == (P.delta, None)
    assert "delta is not calibrated" in found.note and "3 nurseries" in found.note


def test_a_path_that_leans_one_way_in_every_nursery_is_called_biased() -> None:
    found = calibrated(drawn(12, 8, bias=0.5))
    assert found.biased and "biased" in found.note
    assert found.delta < 0.5, "no delta is meant to cover a bias that never changes"


@pytest.mark.parametrize(("nurseries", "pairs"), [(1, 8), (3, 8), (12, 4)])
def test_noise_alone_is_seldom_called_a_bias_however_few_pairs_there_are(
    nurseries: int, pairs: int
) -> None:
    chance = random.Random(31)
    called = 0
    for _ in range(1000):
        noise = [[[chance.gauss(0, 1)] for _ in range(pairs)] for _ in range(nurseries)]
        called += calibrated(noise).biased
    # 2.7 of 1,000 are expected at most; three standard errors would call 19 of 8 pairs each.
    assert called <= 8


def test_nurseries_that_lean_different_ways_are_no_bias_of_the_path() -> None:
    found = calibrated(drawn(6, 8, shared=1.0, sd=0.05))
    flat = [value for value in found.values]
    plain = (variance(flat) / len(flat)) ** 0.5
    assert abs(found.mean) > plain, "the plain standard error would be too sure"
    assert not found.biased


def test_the_values_are_kept_nursery_by_nursery() -> None:
    blocks = drawn(3, 4)
    uneven = [blocks[0], blocks[1][:1], blocks[2]]
    found = calibrated(uneven)
    assert found.nurseries == [4, 1, 4] and found.pairs == len(found.values) == 9
    assert found.shared_bias is not None
    expected = [middle_mean(pair[: found.blocks_confirm]) for nursery in uneven for pair in nursery]
    assert found.values == pytest.approx(expected)
    with pytest.raises(ValueError, match="no pairs"):
        calibrated([blocks[0], [], blocks[2]])


def test_nurseries_of_one_pair_count_all_their_noise_as_shared() -> None:
    values = [[0.3], [-0.2], [0.4], [-0.5]]
    flat = [value for (value,) in values]
    assert shared_bias(values, 0.8) > variance(flat) ** 0.5


def test_the_smallest_resolvable_gain_is_that_of_a_first_confirmation() -> None:
    for found in (calibrated(drawn(1, 8)), calibrated(drawn(12, 8, shared=0.5))):
        expected = resolution(P, found, P.wealth * P.fraction)
        assert Calibration.model_validate_json(found.model_dump_json()) == found
        assert found.resolution == pytest.approx(expected) and expected > found.delta


def test_a_calibration_stored_before_nurseries_were_counted_still_reads() -> None:
    text = calibrated(drawn(1, 8)).model_dump(
        exclude={"nurseries", "shared_bias", "biased", "resolution", "rulers", "pair_seconds"}
    )
    found = Calibration.model_validate(text)
    assert (found.nurseries, found.shared_bias, found.biased, found.resolution) == (
        [],
        None,
        False,
        None,
    )


SPREAD_FIELDS = {"sd_screen", "sd_confirm", "resolution", "spread_pairs"}
law = settings(deadline=None, max_examples=50)
blocks = st.lists(st.floats(-50, 50).map(lambda one: round(one, 3)), min_size=1, max_size=6)
confirming = st.lists(blocks, min_size=2, max_size=32)
QUIET = calibrated(drawn(3, 8))


@law
@given(confirming)
def test_after_a_keep_only_the_spread_changes(pairs: list[list[float]]) -> None:
    found = respread(QUIET, pairs, P)
    assert found.model_dump(exclude=SPREAD_FIELDS) == QUIET.model_dump(exclude=SPREAD_FIELDS)
    assert found.spread_pairs == len(pairs)
    stake = P.wealth * P.fraction
    assert found.resolution == pytest.approx(resolution(P, found, stake), rel=1e-8)
    assert Calibration.model_validate_json(found.model_dump_json()) == found


@law
@given(confirming)
def test_a_spread_is_never_narrower_than_the_upper_bound_of_what_the_pairs_show(
    pairs: list[list[float]],
) -> None:
    found = respread(QUIET, pairs, P)
    seen = variance([middle_mean(one[: QUIET.blocks_confirm]) for one in pairs]) ** 0.5
    assert found.sd_confirm >= max(P.least_sd, seen * upper_factor(len(pairs), 0.8)) * (1 - 1e-8)
    assert found.sd_screen >= P.least_sd


@law
@given(confirming, st.floats(-30, 30), st.randoms(use_true_random=False))
def test_neither_the_gain_nor_the_order_of_the_pairs_moves_a_spread(
    pairs: list[list[float]], gain: float, chance: random.Random
) -> None:
    found = respread(QUIET, pairs, P)
    moved = [[value + gain for value in one] for one in pairs]
    mirrored = [[-value for value in one] for one in pairs]
    chance.shuffle(moved)
    for other in (moved, mirrored):
        again = respread(QUIET, other, P)
        assert again.sd_confirm == pytest.approx(found.sd_confirm, rel=1e-6, abs=1e-6)
        assert again.sd_screen == pytest.approx(found.sd_screen, rel=1e-6, abs=1e-6)


def test_few_pairs_leave_more_room_than_many_that_show_the_same() -> None:
    few = respread(QUIET, [[1.0], [-1.0]] * 4, P)
    many = respread(QUIET, [[1.0], [-1.0]] * 16, P)
    assert few.sd_confirm > many.sd_confirm > 1.0
    with pytest.raises(ValueError, match="two pairs"):
        respread(QUIET, [[1.0]], P)


def test_a_spread_is_what_a_calibration_of_the_same_pairs_would_say() -> None:
    pairs = drawn(1, 12)
    own = calibrated(pairs)
    found = respread(own, pairs[0], P)
    assert (found.sd_screen, found.sd_confirm) == (own.sd_screen, own.sd_confirm)
