"""On a GPU: honest kernels are judged right, exploits and faults are what they are."""

import pytest
from gpu_guard import GpuGuard

from kernelarc_guard.cuda import driver

pytestmark = pytest.mark.needs_gpu

HONEST = (
    "rms_torch.py",
    "rms_triton.py",
    "rms_cuda.cu",
    "side_stream.py",
    "graph.py",
    "waits_inside.py",
)
WRONG = {
    "left_alone.py": {"REVERT wrong_nonfinite correctness"},
    "answer_kept.py": {"REVERT stale_output correctness"},
    # The mapping is read-only: the device itself refuses.
    "input_written.py": {"REJECT raised smoke"},
    "beyond_the_end.cu": {
        "REVERT out_of_bounds_write correctness",
        "REJECT out_of_bounds_write smoke",
    },
}
FAULTS = {
    "illegal_address.cu": "REJECT raised smoke",
    "too_large.py": "REJECT raised smoke",
    "endless.cu": "REJECT timeout smoke",
}
_LEFT_BYTES = 64 << 20


def _found(guard: GpuGuard, name: str) -> str:
    result = guard.correct(name)
    return f"{result.verdict} {result.reason} {result.stage}"


@pytest.mark.parametrize("name", HONEST)
def test_an_honest_kernel_is_right(guard: GpuGuard, name: str) -> None:
    result = guard.correct(name)
    assert (result.verdict, result.stages["correctness"].state) == (None, "passed"), result.detail


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_kernel_is_refused_for_what_it_is(guard: GpuGuard, name: str) -> None:
    assert _found(guard, name) in WRONG[name]


@pytest.mark.parametrize("name", FAULTS)
def test_after_a_fault_the_next_kernel_is_right_and_the_memory_is_back(
    guard: GpuGuard, name: str
) -> None:
    assert guard.correct("rms_cuda.cu").verdict is None
    driver.open_context(0)
    before = driver.free_bytes()[0]
    assert _found(guard, name) == FAULTS[name]
    assert before - driver.free_bytes()[0] <= _LEFT_BYTES
    assert guard.correct("rms_cuda.cu").verdict is None


def test_what_ptxas_says_of_a_kernel_is_in_the_answer(guard: GpuGuard) -> None:
    messages = guard.correct("rms_cuda.cu").build
    assert any("registers" in one.message and one.severity == "info" for one in messages)


@pytest.mark.parametrize("name", ["graph.py", "side_stream.py", "rms_triton.py", "rms_cuda.cu"])
def test_a_kernel_that_only_launches_is_timed_without_the_cost_of_launching(
    guard: GpuGuard, name: str
) -> None:
    result = guard.compare(name)
    assert result.verdict is None, result.detail
    assert not any("calls_awake" in seen for seen in result.observations)
    measured = result.workloads[0].candidate_us
    assert measured is not None and 3 < measured < 120


def test_a_kernel_that_waits_inside_its_call_is_timed_awake(guard: GpuGuard) -> None:
    result = guard.compare("waits_inside.py")
    assert result.verdict is None, result.detail
    assert any("calls_awake" in seen for seen in result.observations)


def test_a_kernel_that_stays_on_the_device_to_start_early_is_found(guard: GpuGuard) -> None:
    result = guard.compare("early_start.cu")
    assert f"{result.verdict} {result.reason} {result.stage}" == "REVERT tampering timing"
    assert "early start" in result.detail


def test_work_that_goes_on_after_the_call_said_done_is_found(guard: GpuGuard) -> None:
    result = guard.compare("late.py")
    assert result.verdict == "REVERT"
    assert result.reason in {"late_write", "wrong_result", "wrong_nonfinite"}


def test_a_clearly_faster_kernel_is_promising(guard: GpuGuard) -> None:
    result = guard.screen("rms_triton.py")
    assert result.decision is not None and result.decision.outcome == "promising", result.detail
