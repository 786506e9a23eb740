"""Ratios to the anchor, contradictions of arms measured alone, and canaries: pure functions."""

import math
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from kernelarc_guard.apart import ROUNDS, contradiction, settled
from kernelarc_guard.canary import alarm, exact_interval, most_hits, p_greater, p_two_sided
from kernelarc_guard.decide import Calibration, Decision
from kernelarc_guard.ratios import AnchoredBlock, anchor_due, anchored, by_workload, ratio_of

NOISE = st.lists(st.floats(-5, 5), min_size=2, max_size=20)


def block(record: int, candidate: int, anchor: int) -> AnchoredBlock:
    """Return a block of three calls, the anchor beside the first and the last."""
    return [[record] * 3], [[candidate] * 3], [[anchor, None, anchor]]


def calibration(sd: float = 0.5) -> Calibration:
    return Calibration(
        device="cpu",
        problem="p",
        at="2026-01-01T00:00:00+00:00",
        pairs=8,
        blocks_screen=1,
        blocks_confirm=1,
        sd_screen=sd,
        sd_confirm=sd,
        delta=0.3,
        mean=0.0,
        values=[0.0, 0.1],
    )


def proven(lower: float) -> Decision:
    return Decision(
        outcome="KEEP",
        reason="confirmed",
        speedup=1.1,
        lower=math.exp(lower / 100),
        mean_percent=lower + 1,
        lower_percent=lower,
        pairs=7,
        blocks=7,
        look=1,
        stake=0.001,
        goal=1.0,
        delta=0.3,
        band=2.0,
        resolution=1.0,
        detail="",
    )


def test_both_arms_are_compared_with_the_anchor_in_one_comparison() -> None:
    found = anchored([[block(800, 500, 1000)], [block(800, 500, 1000)]], [1.0])
    assert found.record is not None
    assert found.record.ratio == pytest.approx(1.25)
    assert found.candidate.ratio == pytest.approx(2.0)
    assert found.candidate.lower == found.candidate.upper == found.candidate.ratio


def test_only_calls_the_anchor_was_called_beside_count() -> None:
    odd: AnchoredBlock = ([[100, 9_999, 100]], [[50, 1, 50]], [[200, None, 200]])
    found = anchored([[odd], [odd]], [1.0])
    assert found.record is not None
    assert found.record.ratio == pytest.approx(2)
    assert found.candidate.ratio == pytest.approx(4)


def test_ratios_by_workload_are_together_the_ratio_over_all() -> None:
    def pair(small: int, large: int) -> list[AnchoredBlock]:
        return [([[800], [90]], [[small], [large]], [[1000], [99]])]

    weights = [1.0, 3.0]
    beside = [pair(500, 70), pair(400, 80)]
    plain: list[list[AnchoredBlock]] = [[(r, c, []) for r, c, _ in blocks] for blocks in beside]
    for pairs in (beside, plain):
        each = by_workload(pairs, 2)
        whole = sum(w * one.mean_percent for w, one in zip(weights, each, strict=True)) / 4
        assert whole == pytest.approx(anchored(pairs, weights).candidate.mean_percent)
        assert all(one.lower < one.ratio < one.upper and one.pairs == 2 for one in each)


def test_without_anchor_times_the_record_is_the_anchor() -> None:
    plain: AnchoredBlock = ([[100, 100]], [[80, 80]], [])
    found = anchored([[plain], [plain]], [1.0])
    assert found.record is None
    assert found.candidate.ratio == pytest.approx(1.25)


def bare(record: int, candidate: int) -> AnchoredBlock:
    return [[record] * 3], [[candidate] * 3], []


def confirmation(pairs: int, has: Callable[[int], bool]) -> list[list[AnchoredBlock]]:
    """Return pairs whose candidate is a little faster in each than in the one before."""
    return [
        [block(800, 500 - place, 1000) if has(place) else bare(800, 500 - place)]
        for place in range(pairs)
    ]


@pytest.mark.parametrize("pairs", [2, 3, 4, 7, 14, 32])
def test_the_first_pairs_and_every_other_one_of_a_confirmation_have_the_anchor(pairs: int) -> None:
    due = [place for place in range(pairs) if anchor_due(place)]
    assert len(due) == min(pairs, 2 + (pairs - 1) // 2)
    found = anchored(confirmation(pairs, anchor_due), [1.0])
    assert found.record is not None
    assert found.record.pairs == found.candidate.pairs == len(due)
    each = by_workload(confirmation(pairs, anchor_due), 1)[0]
    assert each == found.candidate


def test_ratios_are_over_the_pairs_that_have_the_anchor_alone() -> None:
    for has in (anchor_due, lambda place: True):
        pairs = confirmation(7, has)
        some = [one for place, one in enumerate(pairs) if has(place)]
        gains = [100 * math.log(1000 / candidate[0][0]) for ((_, candidate, _),) in some]
        assert anchored(pairs, [1.0]).candidate == ratio_of(gains)


@given(st.integers(4, 12), st.data())
def test_anchor_times_that_lack_where_they_are_due_are_an_error(
    pairs: int, data: st.DataObject
) -> None:
    due = [place for place in range(pairs) if anchor_due(place)]
    gone = data.draw(st.sampled_from(due))
    lacking = confirmation(pairs, lambda place: anchor_due(place) and place != gone)
    with pytest.raises(ValueError, match=f"pair {gone + 1} of {pairs} lacks the anchor's times"):
        anchored(lacking, [1.0])
    with pytest.raises(ValueError, match="anchor"):
        by_workload(lacking, 1)


def test_anchor_times_where_none_are_due_and_blocks_without_them_are_errors() -> None:
    with pytest.raises(ValueError, match="pair 4 of 5 has the anchor, though none is due"):
        anchored(confirmation(5, lambda place: place in (0, 1, 2, 3)), [1.0])
    with pytest.raises(ValueError, match="a block lacks the anchor's times"):
        anchored([[block(1, 1, 1), bare(1, 1)], [block(1, 1, 1), block(1, 1, 1)]], [1.0])


@given(NOISE)
def test_swapping_the_arms_inverts_a_ratio_and_its_interval(values: list[float]) -> None:
    one, other = ratio_of(values), ratio_of([-value for value in values])
    assert one.mean_percent == pytest.approx(-other.mean_percent, abs=1e-7)
    assert one.lower == pytest.approx(1 / other.upper)
    assert one.lower <= one.ratio <= one.upper


def test_a_gain_that_vanishes_when_the_arms_live_apart_is_contradicted() -> None:
    rounds = [0.1, -0.2, 0.0, 0.3, -0.1]
    said = contradiction(rounds, proven(lower=4.0), calibration())
    assert said is not None and "separate lifetimes" in said


def test_a_gain_that_stands_alone_or_cannot_be_resolved_is_not_contradicted() -> None:
    assert contradiction([5.1, 4.9, 5.3, 4.8, 5.0], proven(4.0), calibration()) is None
    assert contradiction([0.1, -0.2, 0.0, 0.3, -0.1], proven(4.0), calibration(sd=5.0)) is None
    assert contradiction([-9.0, 9.0, -8.0, 8.0, 1.0], proven(4.0), calibration()) is None


@given(st.lists(st.floats(-30, 30), min_size=1, max_size=ROUNDS), st.integers(0, ROUNDS - 1))
def test_rounds_end_only_where_no_further_one_could_contradict(
    values: list[float], which: int
) -> None:
    values[which % len(values)] = abs(values[which % len(values)]) + 4.0
    assert settled(values, proven(lower=4.0))
    assert contradiction(values, proven(lower=4.0), calibration(sd=0.05)) is None


def test_rounds_go_on_while_none_has_reached_the_bound() -> None:
    assert not settled([], proven(4.0))
    assert not settled([3.9, -2.0, 3.0, 1.0], proven(4.0))
    assert settled([3.9, -2.0, 3.0, 1.0, 0.0], proven(4.0))
    assert settled([3.9, 4.0], proven(4.0))


@given(st.lists(st.floats(-5, 5).filter(bool), min_size=4, max_size=14, unique_by=abs))
def test_p_values_are_those_of_the_exact_signed_rank_test(values: list[float]) -> None:
    two = stats.wilcoxon(values, method="exact").pvalue
    assert p_two_sided(values) == pytest.approx(two)
    one = stats.wilcoxon(values, alternative="greater", method="exact").pvalue
    assert p_greater(values) == pytest.approx(one)


def test_equal_arms_have_no_evidence() -> None:
    assert p_two_sided([0.0] * 14) == 1.0


@pytest.mark.parametrize(("count", "chance"), [(1, 0.05), (2, 0.05), (40, 0.2), (300, 0.05)])
def test_an_alarm_is_false_in_at_most_one_of_a_hundred(count: int, chance: float) -> None:
    allowed = most_hits(count, chance)
    assert stats.binom.sf(allowed, count, chance) <= 0.01
    assert allowed == stats.binom.isf(0.01, count, chance)


def test_repeated_differences_of_identical_arms_are_an_alarm_and_missed_delays_too() -> None:
    assert alarm([0.5] * 50, [True] * 50) == ""
    assert "itself" in alarm([0.01, 0.02], [])
    assert "delays" in alarm([0.5], [False, False, False])


@given(st.integers(0, 30), st.integers(0, 30))
def test_exact_bounds_are_those_of_clopper_and_pearson(hits: int, more: int) -> None:
    count = hits + more
    if count:
        known = stats.binomtest(hits, count).proportion_ci(0.95, method="exact")
        assert exact_interval(hits, count) == pytest.approx((known.low, known.high))
    else:
        assert exact_interval(0, 0) == (0.0, 1.0)
