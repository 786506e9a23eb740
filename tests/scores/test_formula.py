"""The published score, and the figures that were published with it."""

import json
import math
from pathlib import Path

import pytest

from kernelarc_mcp.scores.formula import Span, problem_score, sol_score, uniform_ratio
from kernelarc_mcp.scores.roofline import audit

PUBLISHED = json.loads(
    (Path(__file__).parent.parent / "data" / "published_bounds.json").read_text(encoding="utf-8")
)


def spans(problem: str) -> list[Span]:
    return [Span(row[0], row[1]) for row in PUBLISHED["problems"][problem]]


@pytest.mark.parametrize(
    ("problem", "score", "ratio"), [("L2-025", 0.5351, 0.886), ("L1-030", 0.4905, 1.015)]
)
def test_a_published_score_is_the_published_ratio_to_the_baseline(
    problem: str, score: float, ratio: float
) -> None:
    found = uniform_ratio(score, spans(problem))
    assert found == pytest.approx(ratio, rel=0.01)
    times = [found * span.baseline for span in spans(problem)]
    scores = [sol_score(time, span) for time, span in zip(times, spans(problem), strict=True)]
    assert problem_score(scores) == pytest.approx(score, abs=1e-9)


def test_three_published_digits_are_a_range_of_ratios() -> None:
    low, high = (uniform_ratio(score, spans("Q-031")) for score in (0.9885, 0.9875))
    assert (round(low, 4), round(high, 4)) == (0.0242, 0.0253)
    assert low < uniform_ratio(0.988, spans("Q-031")) < high


@pytest.mark.parametrize(("problem", "below"), [("L1-030", 0), ("L2-025", 15), ("Q-031", 5)])
def test_published_bounds_below_the_time_to_write_the_outputs_are_flagged(
    problem: str, below: int
) -> None:
    said = [
        audit(t_sol, PUBLISHED["device"], written)
        for t_sol, _, written in PUBLISHED["problems"][problem]
    ]
    assert sum(bool(one) for one in said) == below
    assert all("output-write floor" in one for one in said if one)


def test_a_bound_of_an_unknown_device_says_that_it_was_not_audited() -> None:
    assert "no figures of NVIDIA T1000" in audit(1.0, "NVIDIA T1000", 10)


def test_the_baseline_scores_a_half_and_the_bound_one() -> None:
    span = Span(2.0, 10.0)
    assert sol_score(10.0, span) == 0.5
    assert sol_score(2.0, span) == 1.0
    assert sol_score(1.0, span) > 1.0, "nothing is clamped"
    assert sol_score(18.0, span) == pytest.approx(1 / 3)


def test_beyond_the_pole_the_fraction_is_what_it_is() -> None:
    assert sol_score(2.0, Span(6.0, 10.0)) == math.inf
    assert sol_score(1.0, Span(6.0, 10.0)) < 0


@pytest.mark.parametrize(("time", "expected"), [(4.0, 1.0), (5.0, 1.0), (5.1, 0.0)])
def test_without_headroom_the_score_is_one_or_nothing(time: float, expected: float) -> None:
    assert sol_score(time, Span(5.0, 5.0)) == expected
    assert sol_score(time, Span(5.0, 4.0)) == expected


def test_a_workload_that_did_not_pass_counts_nothing_in_the_mean() -> None:
    assert problem_score([0.5, None, 1.0]) == 0.5
    with pytest.raises(ValueError, match="without workloads"):
        problem_score([])


@pytest.mark.parametrize("bad", [-1.0, math.nan, math.inf])
def test_what_is_no_time_is_refused(bad: float) -> None:
    with pytest.raises(ValueError, match="is no time"):
        sol_score(bad, Span(1.0, 2.0))


def test_a_score_that_nothing_can_reach_is_refused() -> None:
    with pytest.raises(ValueError, match="no time reaches"):
        uniform_ratio(1.9, [Span(1.0, 10.0)])
    with pytest.raises(ValueError, match="above their bound"):
        uniform_ratio(0.5, [Span(2.0, 2.0)])
    with pytest.raises(ValueError, match="above 0"):
        uniform_ratio(0.0, [Span(1.0, 2.0)])
