"""On a GPU: its state per block, who else is there, its rulers, and its lease."""

import json
import threading

import pytest
from gpu_guard import GpuGuard

from kernelarc_guard.cuda import driver
from kernelarc_guard.lease import DeviceLease
from kernelarc_guard.protocol import DEVICE_HELD, Progress

pytestmark = pytest.mark.needs_gpu


def test_every_block_has_the_devices_state(guard: GpuGuard) -> None:
    result = guard.compare("rms_cuda.cu")
    assert [state.pair for state in result.device_states] == [1, 2]
    for state in result.device_states:
        assert state.sm_mhz is not None and 100 < state.sm_mhz < 4000
        assert state.power_w is not None and 10 < state.power_w < 2000
        assert state.temperature_c is not None and 0 < state.temperature_c < 110
        assert state.held_by is not None
        assert 0 < state.free_bytes <= driver.free_bytes()[1]


def test_another_process_on_the_device_is_reported(guard: GpuGuard) -> None:
    """This test's own process has a context there."""
    result = guard.compare("rms_cuda.cu")
    assert any("gpu_not_idle" in seen for seen in result.observations), result.observations


def test_a_calibration_says_what_the_device_does_at_best(guard: GpuGuard) -> None:
    result = guard.calibrate("rms_torch.py", pairs=2)
    assert result.calibration is not None and result.calibration.rulers is not None
    rulers = result.calibration.rulers
    assert rulers.empty_kernel_ns is not None and rulers.empty_kernel_ns > 1000
    assert rulers.copy_bytes_per_second > 1e11 and rulers.write_bytes_per_second > 1e11
    rates = rulers.matrix_flops_per_second
    assert {"bfloat16", "float16", "float32"} <= set(rates)
    assert rates["bfloat16"] > 3 * rates["float32"] > 0


def test_the_device_is_leased_by_its_uuid_and_builds_do_not_wait_for_it(guard: GpuGuard) -> None:
    request = guard.request("screen", "rmsnorm", "rms_cuda.cu", correctness_only=True)
    request["candidate"]["sources"][0]["content"] += f"\n// {request['cache_dir']}\n"
    found = []
    waiting, held = threading.Event(), threading.Event()

    def hear(told: Progress) -> None:
        if told.message == "waiting for the device":
            waiting.set()
        elif told.message == DEVICE_HELD:
            held.set()

    def ask() -> None:
        found.append(guard.send(json.dumps(request).encode()))

    with DeviceLease("this test", driver.device_uuid(0)):
        asking = threading.Thread(target=ask)
        guard.on_progress = hear
        asking.start()
        assert waiting.wait(60)
        messages = [told.message for told in guard.progress]
        assert "build started" in messages and not held.is_set()
    asking.join(120)
    assert held.is_set() and found and found[0].event == "result"
