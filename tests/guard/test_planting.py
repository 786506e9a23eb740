"""Delays planted in a record for canaries: how long, where, and by what on a GPU."""

import math
import time
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kernelarc_guard import control, decide
from kernelarc_guard.bench import Contestant
from kernelarc_guard.canary import LEVEL, MISSES, least_delay, p_greater
from kernelarc_guard.cuda import delays, planting
from kernelarc_guard.cuda.delayed_arm import DelayedArm
from kernelarc_guard.cuda.turns import Turns
from kernelarc_guard.cuda.waiting import TRIED_NS, Clock
from kernelarc_guard.decide import Calibration, Parameters
from kernelarc_guard.faults import Refused
from kernelarc_guard.planting import spread
from kernelarc_guard.protocol import BlockTimes, PairTimes
from kernelarc_mcp.host.duties import CANARY_PAIRS, delay_to_plant

TIMER = Clock(32, 1.98)
US = 1000
workloads = st.lists(
    st.tuples(st.floats(1e3, 1e9), st.floats(0, 1).map(lambda w: round(w, 3))), min_size=1
).filter(lambda all_: sum(w for _, w in all_) > 0)


def calibration(sd: float, delta: float = 0.3) -> Calibration:
    return Calibration(
        device="cuda:0",
        problem="p",
        at="2026-11-30",
        pairs=8,
        blocks_screen=4,
        blocks_confirm=8,
        sd_screen=sd,
        sd_confirm=sd,
        delta=delta,
        mean=0.0,
        values=[0.0, 0.1],
    )


@settings(deadline=None, max_examples=200)
@given(workloads, st.floats(0.1, 100), st.floats(0, 3000))
def test_a_delay_is_what_was_asked_for_or_more_and_nowhere_shorter_than_can_be_planted(
    known: list[tuple[float, float]], percent: float, least: float
) -> None:
    times, weights = [t for t, _ in known], [w for _, w in known]
    found = spread(times, weights, percent, least)
    assert found.percent >= percent * (1 - 1e-9)
    planted = [100 * math.log1p(ns / t) for ns, t in zip(found.ns, times, strict=True)]
    whole = sum(w * p for w, p in zip(weights, planted, strict=True)) / sum(weights)
    assert whole == pytest.approx(found.percent, abs=0.1)
    assert all(w > 0 and ns >= least - 1 for ns, w in zip(found.ns, weights, strict=True) if ns)
    assert max(planted) <= max(200.0, percent, 100 * math.log1p(least / min(times))) + 0.1


def test_all_workloads_have_the_same_part_where_all_can() -> None:
    found = spread([100 * US, 1000 * US], [1.0, 1.0], 100 * math.log(1.05), 2 * US)
    assert found.ns == (5 * US, 50 * US)
    assert found.percent == pytest.approx(100 * math.log(1.05))


def test_those_that_are_too_short_are_left_alone_and_the_others_carry_it() -> None:
    found = spread([10 * US, 1000 * US], [1.0, 1.0], 100 * math.log(1.05), 2 * US)
    assert found.ns == (0, round(1000 * US * (1.05**2 - 1)))
    assert found.percent == pytest.approx(100 * math.log(1.05))


def test_more_is_planted_where_the_only_workload_is_too_short_for_less() -> None:
    found = spread([15 * US], [1.0], 3.6, 1.5 * US)
    assert found.ns == (1500,) and found.percent == pytest.approx(100 * math.log(1.1))


def test_a_canarys_pairs_see_the_least_delay_as_often_as_the_alarm_takes_for_granted() -> None:
    parameters = Parameters(n_max=256)
    known = calibration(sd=2.0)
    least = least_delay(known, parameters, CANARY_PAIRS)
    assert decide.goal(parameters, known, 0.01 / 16) < least  # so large a plan finds less
    assert delay_to_plant(parameters, known, 0.01 / 16) == least
    pairs = np.random.default_rng(5).normal(least - known.delta, 2.0, (1500, CANARY_PAIRS))
    seen = sum(p_greater(list(one)) <= LEVEL for one in pairs) / len(pairs)
    assert 1 - MISSES - 0.02 < seen < 0.88


@pytest.mark.parametrize("sd", [0.05, 0.5, 3.8, 20.0])
def test_with_the_usual_plans_the_goal_is_planted(sd: float) -> None:
    parameters, known = Parameters(), calibration(sd, delta=max(0.3, sd / 4))
    goal = decide.goal(parameters, known, 0.01 / 16 / 8)
    assert delay_to_plant(parameters, known, 0.01 / 16 / 8) == goal


def test_none_is_planted_where_a_device_is_too_noisy_to_show_any() -> None:
    assert delay_to_plant(Parameters(), calibration(sd=300.0), 0.01 / 16) == 0.0


class Kernel:
    """A waiting kernel that waits for nothing and says for how long it should."""

    def __init__(self) -> None:
        """Remember what it is told."""
        self.told: list[int] = []

    def wait(self, ns: int, clock: Clock) -> None:
        """Take note."""
        self.told.append(ns)

    def look(self) -> Clock:
        """Return a fine timer."""
        return TIMER


def test_a_runner_waits_for_what_the_launch_leaves_of_its_delay(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    kernel = Kernel()
    monkeypatch.setattr(delays, "WaitKernel", lambda: kernel)
    runner = delays.Delayer(TIMER)
    runner.queue(0)
    assert kernel.told == [0, TRIED_NS]  # loaded, and a window of which the launch is measured
    runner.tell([5000, 900], 1200)
    runner.queue(0)
    runner.queue(1)
    assert kernel.told[2:] == [3800, 0]
    runner.tell([2_000_000], 0)
    begin = time.perf_counter_ns()
    runner.pass_time(0)
    assert time.perf_counter_ns() - begin >= 2_000_000


def arm(empty: int, with_wait: list[int]) -> tuple[Any, list[int]]:
    """Return an arm without a device whose windows take so long, and what it says of launches."""
    made, heeded, windows = object.__new__(DelayedArm), list[int](), iter(with_wait)
    known: dict[str, Any] = {
        "_mapped": True,
        "_ready": False,
        "_turns": Turns(),
        "_heed": heeded.append,
        "_delays": (5000, 0),
        "_empty_windows": lambda flags=control.QUEUE: (
            next(windows) if flags & control.WAIT else empty
        ),
    }
    made.__dict__.update(known)
    return made, heeded


def test_what_launching_the_wait_takes_is_measured_in_each_runner() -> None:
    made, heeded = arm(149_000, [170_000, 150_400 + TRIED_NS])
    made.get_ready()
    made.get_ready()
    assert heeded == [1400]
    assert made._to_load() == {"load": True, "delays": [5000, 0], "launch_ns": 1400}
    assert [made._more_flags(w) for w in (0, 1)] == [control.WAIT, 0]


def test_a_launch_that_takes_absurdly_long_is_refused() -> None:
    made, heeded = arm(149_000, [170_000] * 3)
    with pytest.raises(Refused, match="something else is at work"):
        made.get_ready()
    assert not heeded


def test_the_records_own_calls_say_what_is_planted(monkeypatch: pytest.MonkeyPatch) -> None:
    known: Any = None
    record = Contestant(known, known, 0)
    pair = PairTimes(
        record_first=True,
        blocks=[BlockTimes(record=[[99 * US, 101 * US]], candidate=[[100 * US, 100 * US]])] * 2,
    )
    planter, notes = planting.Planting(), list[str]()

    def measured(
        bench: Any, nursery: Any, record: Contestant, plain: Contestant, *rest: Any
    ) -> PairTimes:
        assert plain.delays == (0,) and planter.clock == TIMER
        planter.heed(1400)
        return pair

    monkeypatch.setattr(planting, "run_pair", measured)
    monkeypatch.setattr(planting, "WaitKernel", Kernel)
    bench: Any = SimpleNamespace(
        awake=False,
        drawer=SimpleNamespace(indices=range(1)),
        problem=SimpleNamespace(weights=lambda: [1.0]),
        note=notes.append,
        dying=SimpleNamespace(bury=lambda: None),
        be_quiet=lambda nursery: None,
    )
    slower = planter.plant(bench, known, record, Contestant(known, known, 1), 100 * math.log(1.1))
    assert slower.delays == (10 * US,) and planter.clock == TIMER
    assert slower.planted == pytest.approx(100 * math.log(1.1))
    (said,) = notes
    assert said.startswith("delay_planted: 9.53 %") and "steps of 32 ns" in said
    planter.refuse_other_calls(slower.delays, awake=False)
    with pytest.raises(Refused, match="planned for queued ones"):
        planter.refuse_other_calls(slower.delays, awake=True)


def test_cycles_are_counted_where_the_timers_steps_are_coarse() -> None:
    assert TIMER.by_timer and not Clock(1024, 1.98).by_timer
    assert "steps of 1024 ns" in Clock(1024, 1.98).name
