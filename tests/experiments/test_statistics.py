"""What is said of a few runs, against numbers known otherwise."""

import math

import numpy as np
import pytest

from kernelarc_mcp.experiments.statistics import (
    geometric_mean,
    interval,
    paired,
    sign_flip,
    signed_rank,
)


def test_a_geometric_mean_is_one_and_its_interval_holds_it() -> None:
    mean = geometric_mean([2.0, 8.0, 4.0])
    assert mean.value == 4.0 and mean.runs == 3
    assert mean.lower is not None and mean.upper is not None
    assert 2.0 <= mean.lower < 4.0 < mean.upper <= 8.0


def test_one_run_has_no_interval_and_equal_runs_have_none_of_any_width() -> None:
    alone = geometric_mean([3.0])
    assert (alone.value, alone.lower, alone.upper) == (3.0, None, None)
    equal = geometric_mean([3.0, 3.0, 3.0])
    assert equal.lower == pytest.approx(3.0) and equal.upper == pytest.approx(3.0)


def test_the_bootstrap_of_many_runs_is_the_normal_interval() -> None:
    logs = np.random.default_rng(3).normal(1.0, 0.2, size=(400, 1))
    lower, upper = interval(logs)
    half = 1.96 * logs.std(ddof=1) / math.sqrt(400)
    assert lower[0] == pytest.approx(logs.mean() - half, abs=0.05 * half)
    assert upper[0] == pytest.approx(logs.mean() + half, abs=0.05 * half)


def test_an_interval_is_the_same_each_time() -> None:
    assert geometric_mean([1.0, 2.0, 3.0, 9.0]) == geometric_mean([1.0, 2.0, 3.0, 9.0])


def test_columns_in_which_all_runs_agree_have_that_value() -> None:
    lower, upper = interval(np.array([[0.0, 1.0], [0.0, 2.0], [0.0, 4.0]]))
    assert lower[0] == upper[0] == 0.0
    assert lower[1] < 7 / 3 < upper[1]


def test_five_gains_of_five_cannot_be_less_likely_than_one_in_sixteen() -> None:
    logs = np.array([0.1, 0.2, 0.3, 0.4, 0.5])
    assert sign_flip(logs) == pytest.approx(2 / 32)
    assert signed_rank(logs) == pytest.approx(2 / 32)


def test_the_exact_tests_give_what_counting_by_hand_gives() -> None:
    # The eight sums of +-3 +-2 +-1 are 6 4 2 0 0 -2 -4 -6: four of them are as far out as 4.
    assert sign_flip(np.array([3.0, 2.0, -1.0])) == pytest.approx(4 / 8)
    # Seven of the 32 subsets of the ranks 1 to 5 add up to 4 at most.
    assert signed_rank(np.array([1.0, 2.0, 3.0, -4.0, 5.0])) == pytest.approx(14 / 32)


def test_where_ranks_are_undefined_none_are_made_up() -> None:
    assert signed_rank(np.array([0.1, -0.1, 0.2])) is None
    assert signed_rank(np.array([0.0, 0.1, 0.2])) is None
    assert sign_flip(np.array([0.0, 0.0])) == 1.0
    assert sign_flip(np.array([0.1])) is None


def test_arms_are_paired_by_seed_and_only_by_seeds_both_have() -> None:
    found = paired("two", {1: 4.0, 2: 9.0, 3: 5.0}, "one", {1: 2.0, 2: 2.0, 9: 7.0})
    assert found is not None
    assert (found.pairs, found.wins, found.losses) == (2, 2, 0)
    assert found.ratio == pytest.approx(3.0) and found.least == 0.5
    assert paired("two", {1: 4.0}, "one", {2: 4.0}) is None
