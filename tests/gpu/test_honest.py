"""On a GPU: honest kernels that do unusual things are judged right, and timed for what they take."""

import pytest
from gpu_guard import GpuGuard

pytestmark = pytest.mark.needs_gpu

HONEST = (
    "side_stream.py",
    "graph.py",
    "waits_inside.py",
    "autotuned.py",
    "workspace.py",
    "split_sum.py",
)
QUEUED = ("graph.py", "side_stream.py", "rms_triton.py", "rms_cuda.cu")


@pytest.mark.parametrize("name", HONEST)
def test_an_honest_kernel_is_right(guard: GpuGuard, name: str) -> None:
    result = guard.correct(name)
    assert (result.verdict, result.stages["correctness"].state) == (None, "passed"), result.detail


def test_what_torch_compiles_is_right(guard: GpuGuard) -> None:
    result = guard.correct("compiled.py", start_seconds=120.0)
    assert (result.verdict, result.stages["correctness"].state) == (None, "passed"), result.detail


def test_a_split_inner_dimension_is_right(guard: GpuGuard) -> None:
    result = guard.correct("split_k.py", "matmul_residual")
    assert (result.verdict, result.stages["correctness"].state) == (None, "passed"), result.detail


@pytest.mark.parametrize("name", QUEUED)
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


def test_a_clearly_faster_kernel_is_promising(guard: GpuGuard) -> None:
    result = guard.screen("rms_triton.py")
    assert result.decision is not None and result.decision.outcome == "promising", result.detail


def test_lines_marked_to_stay_in_the_cache_are_evicted_all_the_same(guard: GpuGuard) -> None:
    """The kernel is the same as the plain one: what it gains by lasting lines is nothing."""
    result = guard.compare("lasting_lines.cu")
    assert result.verdict is None, result.detail
