"""On a GPU: kernels in every language that is installed are judged right."""

import pytest
from gpu_guard import GpuGuard

from kernelarc_guard.reasons import STAGES

pytestmark = pytest.mark.needs_gpu

LANGUAGES = (
    "rms_torch.py",
    "rms_triton.py",
    "rms_cupy.py",
    "rms_nvrtc",
    "rms_cuda.cu",
    "rms_tvm_ffi.cu",
)
ABSENT = {"cute_dsl": "nvidia-cutlass-dsl", "cutile": "cuda-tile", "tilelang": "tilelang"}


@pytest.mark.parametrize("name", LANGUAGES)
def test_a_kernel_of_each_language_is_right(guard: GpuGuard, name: str) -> None:
    result = guard.correct(name)
    assert (result.verdict, result.stages["correctness"].state) == (None, "passed"), result.detail


def test_a_torch_extension_is_built_beside_measurements_and_right(guard: GpuGuard) -> None:
    guard.wait_for_build("rms_extension")
    result = guard.correct("rms_extension")
    assert (result.verdict, result.stages["correctness"].state) == (None, "passed"), result.detail


@pytest.mark.parametrize("language", ABSENT)
def test_a_language_that_is_not_installed_is_named_with_its_package(
    guard: GpuGuard, language: str
) -> None:
    result = guard.correct("rms_torch.py", language=language)
    if result.verdict is not None:
        assert (result.verdict, result.reason, result.stage) == ("REJECT", "build_failed", "build")
        assert ABSENT[language] in result.detail
    else:
        assert result.stages["correctness"].state == "passed"


def test_what_ptxas_says_of_a_kernel_is_in_the_answer(guard: GpuGuard) -> None:
    messages = guard.correct("rms_cuda.cu").build
    told = [one.message for one in messages if one.severity == "info"]
    assert any("registers" in one and "spills" in one and "smem" in one for one in told), told


def test_a_compilers_error_is_in_the_answer_with_its_line(guard: GpuGuard) -> None:
    result = guard.correct(
        "rms_cuda.cu", content="#include <cuda_runtime.h>\nint run() { return nothing; }\n"
    )
    assert (result.verdict, result.reason, result.stage) == ("REJECT", "build_failed", "build")
    assert any(one.severity == "error" and one.line == 2 for one in result.build), result.build


def test_what_was_not_reached_is_not_evaluated(guard: GpuGuard) -> None:
    result = guard.correct("rms_cuda.cu", content="#error no\n")
    states = {stage: result.stages[stage].state for stage in STAGES if stage in result.stages}
    assert states["build"] == "failed" and states["correctness"] == "not evaluated"
