"""Numbers as people read them."""

import math

import pytest

from kernelarc_guard.decide import Calibration, Parameters, screen
from kernelarc_guard.words import times


@pytest.mark.parametrize(
    ("percent", "said"),
    [
        (0.0, "1.0000x"),
        (0.3, "1.0030x"),
        (100 * math.log(2), "2.0000x"),
        (-519.403, "0.00555x"),
        (380.0, "44.7x"),
    ],
)
def test_a_gain_is_said_as_record_time_over_candidate_time(percent: float, said: str) -> None:
    assert times(percent) == said


def test_a_much_slower_candidate_is_told_so_in_a_ratio_and_no_impossible_percentage() -> None:
    noise = Calibration.model_validate(
        {
            "device": "cpu",
            "problem": "p",
            "at": "2026-01-01T00:00:00+00:00",
            "pairs": 8,
            "blocks_screen": 1,
            "blocks_confirm": 1,
            "sd_screen": 0.5,
            "sd_confirm": 0.5,
            "delta": 0.3,
            "mean": 0.0,
            "values": [0.1] * 8,
        }
    )
    values: list[float] = []
    decision = None
    while decision is None:
        values.append(-519.403)
        decision = screen(values, Parameters(), noise, 0.0006)
    assert decision.reason == "slower"
    assert decision.detail.startswith("0.00555x the record's speed over ")
    assert "519" not in decision.detail
    assert decision.mean_percent == pytest.approx(-519.403), "programs read the same as before"
