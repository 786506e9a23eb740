"""On a GPU: after each fault the next kernel is right and the memory is back."""

import pytest
from gpu_guard import GpuGuard

from kernelarc_guard.cuda import driver

pytestmark = pytest.mark.needs_gpu

FAULTS = {
    "illegal_address.cu": {"REJECT raised smoke"},
    "device_assert.cu": {"REJECT raised smoke"},
    "too_large.py": {"REJECT raised smoke"},
    "memory_held.py": {"REJECT limit_passed smoke", "REVERT limit_passed correctness"},
    "endless.cu": {"REJECT timeout smoke"},
    "host_loop.py": {"REJECT timeout smoke"},
    "process_ends.py": {"REJECT crashed smoke"},
}
_LEFT_BYTES = 64 << 20


@pytest.mark.parametrize("name", FAULTS)
def test_after_a_fault_the_next_kernel_is_right_and_the_memory_is_back(
    warm: GpuGuard, name: str
) -> None:
    before = driver.free_bytes()[0]
    result = warm.correct(name, start_seconds=5.0)
    assert f"{result.verdict} {result.reason} {result.stage}" in FAULTS[name], result.detail
    assert before - driver.free_bytes()[0] <= _LEFT_BYTES
    assert warm.correct("rms_cuda.cu").verdict is None
