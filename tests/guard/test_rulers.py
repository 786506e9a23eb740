"""Physical limits: what a device's rulers say of measured windows, as values and through a real guard."""

from pathlib import Path
from typing import Any

import pytest
from guard_process import DLPACK, REFERENCE, SCHEDULE, Guard, cpp, problem, python
from hypothesis import given, settings
from hypothesis import strategies as st
from laboratory import Laboratory

from kernelarc_guard.decide import Rulers
from kernelarc_guard.installed import installed
from kernelarc_guard.problem import Problem, read_problem
from kernelarc_guard.protocol import Refusal, Result
from kernelarc_guard.rulers import MARGIN, below, limits_of
from kernelarc_guard.solution import Solution, seed_solution
from kernelarc_mcp.data import data_dir

law = settings(deadline=None, max_examples=50)
RULERS = Rulers(empty_window_ns=10_000, write_bytes_per_second=1e9, copy_bytes_per_second=2e9)
RESTING = """import time
import torch

def run(x, scale):
    time.sleep(0.2)
    return torch.tanh(x) * scale
"""


def tanh(**keys: Any) -> Problem:
    return Problem.model_validate(problem(**keys))


def returning() -> Solution:
    return Solution.model_validate(python(REFERENCE))


def passing() -> Solution:
    return Solution.model_validate(cpp(DLPACK))


def test_a_solution_that_fills_buffers_has_to_write_them_and_one_that_returns_only_to_wake() -> (
    None
):
    fills = limits_of(RULERS, tanh(), passing())
    # 4,000 and 240,000 bytes at 1 GB/s, after 10 us.
    assert fills.least == pytest.approx([14_000 / MARGIN, 250_000 / MARGIN])
    assert limits_of(RULERS, tanh(), returning()).least == pytest.approx([10_000 / MARGIN] * 2)


def test_a_closer_look_begins_where_everything_could_just_be_read_and_written() -> None:
    for solution in (passing(), returning()):
        assert limits_of(RULERS, tanh(), solution).audit == pytest.approx([14_000, 250_000])


def test_more_threads_may_write_that_much_faster() -> None:
    limits = limits_of(RULERS, tanh(threads=4), passing())
    assert limits.least == pytest.approx([11_000 / MARGIN, 70_000 / MARGIN])


def test_packed_and_narrow_numbers_are_counted_in_bytes() -> None:
    wide = problem()
    wide["definition"]["outputs"]["y"]["dtype"] = "float64"
    assert limits_of(RULERS, Problem.model_validate(wide), passing()).least[0] * MARGIN == 18_000
    wide["definition"]["outputs"]["y"]["dtype"] = "float8_e5m2"
    assert limits_of(RULERS, Problem.model_validate(wide), passing()).least[0] * MARGIN == 11_000
    wide["definition"]["outputs"]["y"]["dtype"] = "float4_e2m1"
    assert limits_of(RULERS, Problem.model_validate(wide), passing()).least[0] * MARGIN == 10_500


calls = st.lists(st.integers(1, 10**9), min_size=1, max_size=9)


@law
@given(st.lists(st.lists(calls, min_size=2, max_size=2), min_size=1, max_size=5))
def test_only_a_median_below_the_limit_is_below_it(blocks: list[list[list[int]]]) -> None:
    shortest = min(time for block in blocks for workload in block for time in workload)
    longest = max(time for block in blocks for workload in block for time in workload)
    assert below(blocks, [shortest, shortest]) is None
    found = below(blocks, [longest + 1, longest + 1])
    assert found is not None and found[0] == 0 and shortest <= found[1] <= longest
    later = below(blocks, [0, longest + 1])
    assert later is not None and later[0] == 1


def test_one_short_call_among_many_is_not_below() -> None:
    assert below([[[5, 90, 91, 92, 93]]], [50.0]) is None
    assert below([[[5, 6, 7, 92, 93]]], [50.0]) == (0, 7.0)


def test_a_runner_is_as_good_as_before_after_its_empty_windows(tmp_path: Path) -> None:
    with Laboratory(tmp_path) as lab:
        arm = lab.start(REFERENCE)
        try:
            before = lab.call(arm)
            windows = arm.empty_windows(20)
            after = lab.call(arm)
        finally:
            arm.close()
    assert len(windows) == 20 and 0 < min(windows)
    assert min(windows) < max(before, after)


def calibration(**rulers: float) -> dict[str, Any]:
    return {
        "device": "cpu",
        "problem": "p",
        "at": "2026-01-01T00:00:00+00:00",
        "pairs": 8,
        "blocks_screen": 1,
        "blocks_confirm": 1,
        "sd_screen": 5.0,
        "sd_confirm": 5.0,
        "delta": 0.3,
        "mean": 0.0,
        "values": [0.0, 0.1],
        "rulers": RULERS.model_dump() | rulers,
    }


def screened(guard: Guard, **more: Any) -> Result | Refusal:
    return guard.answer("screen", **({"candidate": python(REFERENCE)} | more))


def test_a_candidate_below_the_physical_limit_is_reverted_as_below_physical_limit(
    guard: Guard,
) -> None:
    # Said to take 0.2 s to wake: the record rests that long, the candidate does not.
    noise = calibration(empty_window_ns=200_000_000)
    result = screened(guard, record=python(RESTING), calibration=noise)
    assert isinstance(result, Result), result
    found = (result.verdict, result.reason, result.stage)
    assert found == ("REVERT", "below_physical_limit", "timing"), result.detail
    assert len(result.pairs) == 1 and result.decision is None
    assert "us" in result.detail and result.workloads[0].state == "failed"


def test_the_same_limit_holds_in_a_confirmation(guard: Guard) -> None:
    noise = calibration(empty_window_ns=200_000_000)
    result = guard.ask(
        "confirm",
        record=python(RESTING),
        candidate=python(REFERENCE),
        calibration=noise,
        stake=0.01 / 16,
    )
    assert (result.verdict, result.reason) == ("REVERT", "below_physical_limit")


def test_where_the_record_is_below_it_too_the_rulers_are_at_fault(guard: Guard) -> None:
    answer = screened(guard, calibration=calibration(empty_window_ns=3_000_000_000))
    assert isinstance(answer, Refusal) and "calibrate again" in answer.error, answer


def test_without_rulers_nothing_is_judged(guard: Guard) -> None:
    answer = screened(guard, calibration=calibration() | {"rulers": None})
    assert isinstance(answer, Refusal) and "calibrate again" in answer.error, answer


def test_calls_near_the_limit_are_checked_in_full_and_noted(guard: Guard) -> None:
    # Nothing is below the limit, and everything is where a closer look begins.
    noise = calibration(empty_window_ns=1, copy_bytes_per_second=1.0)
    result = screened(guard, calibration=noise)
    assert isinstance(result, Result), result
    assert [one.state for one in result.workloads] == ["passed", "passed"]
    noted = [one for one in result.observations if one.startswith("near_physical_limit")]
    assert len(noted) == 2, result.observations


@pytest.mark.parametrize("name", ["causal_conv", "matmul_residual", "rmsnorm", "softmax", "topk"])
def test_the_seeds_of_the_library_are_never_below_what_was_measured(
    guard: Guard, name: str
) -> None:
    folder = data_dir("kernels") / name
    read = read_problem(folder)
    seed = seed_solution(folder, read.definition)
    assert seed is not None
    result = guard.ask(
        "calibrate",
        pairs=2,
        problem=read.model_dump(),
        record=seed.model_dump(),
        schedule=SCHEDULE | {"start_seconds": 60.0, "call_seconds": 20.0, "evict_bytes": 0},
    )
    assert result.calibration is not None and result.calibration.rulers is not None
    rulers = result.calibration.rulers
    limits = limits_of(rulers, read, seed)
    for pair in result.pairs:
        for arm in ("record", "candidate"):
            blocks = [getattr(block, arm) for block in pair.blocks]
            assert below(blocks, limits.least) is None
            # Not by a hair either.
            assert below(blocks, [1.5 * one for one in limits.least]) is None
    assert 500 < rulers.empty_window_ns < 5_000_000
    assert 1e8 < rulers.copy_bytes_per_second < 1e13
    assert rulers.write_bytes_per_second > 1e8
    assert result.calibration.toolchain == installed("cpu")
