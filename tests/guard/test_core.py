"""The deciding core: many submissions at once are decided as each of them alone."""

import numpy as np
import pytest

from kernelarc_guard import core
from kernelarc_guard.core import Judged, Source, Verdict
from kernelarc_guard.decide import Calibration, Parameters, confirm, screen
from kernelarc_guard.signed_rank import critical_sum, lower_bound, lower_bounds
from kernelarc_guard.terms import Floats, Ints, Terms, terms

P = Parameters()
COUNT = 400
WORKLOADS = 3


class Recorded:
    """Pairs of many submissions, handed out as they are asked for."""

    def __init__(self, values: Floats) -> None:
        self.values = values
        self.given = np.zeros(len(values), np.int64)

    def __call__(self, rows: Ints, count: int) -> Floats:
        places = self.given[rows, None] + np.arange(count)
        self.given[rows] += count
        taken: Floats = self.values[rows[:, None], places]
        return taken


@pytest.fixture(scope="module")
def submissions() -> tuple[Floats, Floats, Terms, list[Calibration]]:
    """Values, values by workload, terms and calibrations of submissions of every kind."""
    chance = np.random.default_rng(1)
    gain = chance.choice([-20.0, -2.0, -1.0, 0.0, 0.5, 1.0, 2.0, 5.0], COUNT)
    sd = chance.choice([0.1, 0.5, 1.5], COUNT)
    values = gain[:, None] + sd[:, None] * chance.standard_t(3, (COUNT, P.n_max))
    by_workload = np.repeat(values[:, :, None], WORKLOADS, axis=2)
    by_workload[::3, :, 1] -= 9
    calibrations = [
        Calibration(
            device="cpu",
            problem="p",
            at="t",
            pairs=8,
            blocks_screen=4,
            blocks_confirm=8,
            sd_screen=one,
            sd_confirm=1.1 * one,
            delta=delta,
            mean=0.0,
            values=[],
        )
        for one, delta in zip(sd.tolist(), chance.choice([0.3, 0.8], COUNT).tolist(), strict=True)
    ]
    held = terms(
        P,
        sd_screen=[one.sd_screen for one in calibrations],
        sd_confirm=[one.sd_confirm for one in calibrations],
        delta=[one.delta for one in calibrations],
        stake=np.where(np.arange(COUNT) % 5, 0.01 / 16, 1e-5),
    )
    return values, by_workload, held, calibrations


def _mean_and_lower(judged: Judged, row: int) -> tuple[float, float | None]:
    lower = float(judged.lower[row])
    return float(judged.mean[row]), None if lower == -np.inf else lower


def test_many_screens_end_as_each_alone(
    submissions: tuple[Floats, Floats, Terms, list[Calibration]],
) -> None:
    values, _, held, calibrations = submissions
    judged = core.screen(Recorded(values), held, P, P.screen_pairs)
    assert set(judged.verdict.tolist()) == {
        Verdict.PROMISING,
        Verdict.CLOSE,
        Verdict.SLOWER,
        Verdict.NOT_CLOSE,
    }
    for row in range(COUNT):
        k = int(judged.pairs[row])
        alone = screen(values[row, :k].tolist(), P, calibrations[row], float(held.stake[row]))
        assert alone is not None
        reason = {
            "close_to_record": "CLOSE",
            "slower": "SLOWER",
            "not_proven_close": "NOT_CLOSE",
            None: "PROMISING",
        }[alone.reason]
        assert Verdict(judged.verdict[row]).name == reason
        assert alone.mean_percent == pytest.approx(judged.mean[row], rel=1e-8, abs=1e-12)


def test_many_confirmations_end_as_each_alone(
    submissions: tuple[Floats, Floats, Terms, list[Calibration]],
) -> None:
    values, by_workload, held, calibrations = submissions

    def regressed(rows: Ints, n: int) -> Ints:
        return core.regressed_workload(by_workload[rows, :n], P)

    judged = core.confirm(Recorded(values), regressed, held, P, P.n_max)
    assert {Verdict.CONFIRMED, Verdict.NOT_CONFIRMED, Verdict.REGRESSED} <= set(
        judged.verdict.tolist()
    )
    for row in range(COUNT):
        n = int(judged.pairs[row])
        alone = confirm(
            values[row, :n].tolist(),
            by_workload[row, :n].tolist(),
            P,
            calibrations[row],
            float(held.stake[row]),
        )
        assert alone is not None
        kept = judged.verdict[row] == Verdict.CONFIRMED
        assert (alone.outcome == "KEEP", alone.look) == (kept, judged.look[row])
        assert (alone.reason == "workload_regressed") == (judged.workload[row] >= 0)
        mean, lower = _mean_and_lower(judged, row)
        assert alone.mean_percent == pytest.approx(mean, rel=1e-8, abs=1e-12)
        assert alone.lower_percent == (
            None if lower is None else pytest.approx(lower, rel=1e-8, abs=1e-12)
        )


def test_a_submission_without_enough_pairs_stays_open_and_takes_no_more(
    submissions: tuple[Floats, Floats, Terms, list[Calibration]],
) -> None:
    values, _, held, _ = submissions
    source = Recorded(values)

    def never(rows: Ints, n: int) -> Ints:
        return np.full(len(rows), -1)

    asked: Source = source
    judged = core.confirm(asked, never, held, P, 6)
    assert not judged.verdict.any() and not source.given.any()
    judged = core.confirm(asked, never, held, P, 7)
    assert (source.given == 7).all()
    assert (judged.verdict == Verdict.OPEN).any() and (judged.verdict != Verdict.OPEN).any()


def test_the_signed_rank_bounds_of_many_rows_are_those_of_each() -> None:
    chance = np.random.default_rng(2)
    values = chance.normal(size=(300, 13))
    levels = chance.choice([0.2, 0.01, 1e-3, 1e-9], 300)
    bounds = lower_bounds(values, levels)
    assert critical_sum(13, 1e-9) is None
    for row, level, bound in zip(values.tolist(), levels.tolist(), bounds.tolist(), strict=True):
        alone = lower_bound(row, level)
        assert bound == (-np.inf if alone is None else alone)


def test_a_bound_is_the_walsh_average_whose_rank_the_test_asks_for() -> None:
    chance = np.random.default_rng(3)
    values = chance.normal(size=9).tolist()
    w = critical_sum(9, 0.02)
    averages = sorted(((a + b) / 2 for i, a in enumerate(values) for b in values[i:]), reverse=True)
    assert w is not None and lower_bound(values, 0.02) == averages[w - 1]
