"""On a GPU: a problem that fills it is judged, and one that does not fit is refused with the sum."""

import json
from typing import Any

import pytest
from gpu_guard import GpuGuard

from kernelarc_guard.cuda import driver
from kernelarc_guard.problem import Problem
from kernelarc_guard.protocol import Refusal, Result

pytestmark = pytest.mark.needs_gpu

_NAMES = ("up", "gate", "down")
RIGHT = """import torch


def run(up, gate, down, y_up, y_gate, y_down):
    for one, out in ((up, y_up), (gate, y_gate), (down, y_down)):
        torch.add(one, one, out=out)
"""
WRONG = RIGHT + "    y_down[-1, -1, -1] += 1.0\n"


def _problem(experts: int) -> dict[str, Any]:
    """Return a problem of three tensors in and three out, of 33.6 MB for each expert."""
    spec = {"shape": ["experts", "hidden", "inner"], "dtype": "float32"}
    axes = {"experts": experts, "hidden": 4096, "inner": 2048}
    problem = {
        "definition": {
            "name": "gradients",
            "axes": {name: {"type": "var"} for name in axes},
            "inputs": {name: spec for name in _NAMES},
            "outputs": {f"y_{name}": spec for name in _NAMES},
            "reference": "def run(up, gate, down):\n    return up * 2, gate * 2, down * 2\n",
            "kernelarc": {"oracle": "declared"},
        },
        "workloads": [
            {"uuid": "whole", "axes": axes, "tolerance": {"max_atol": 1e-5, "max_rtol": 1e-5}}
        ],
    }
    return Problem.model_validate_json(json.dumps(problem)).model_dump(mode="json")


def _solution(source: str) -> dict[str, Any]:
    return {
        "name": "doubled",
        "definition": "gradients",
        "spec": {"languages": ["pytorch"], "entry_point": "kernel.py::run"},
        "sources": [{"path": "kernel.py", "content": source}],
    }


def _judge(guard: GpuGuard, op: str, experts: int, source: str, **more: Any) -> Result | Refusal:
    request = guard.request(op, "rmsnorm", "rms_torch.py", **more)
    request |= {
        "problem": _problem(experts),
        "record": _solution(RIGHT),
        "candidate": _solution(source),
    }
    request["schedule"] |= {"calls": 2, "warmup_calls": 1, "start_seconds": 60, "call_seconds": 60}
    return guard.send(json.dumps(request).encode())


def test_a_problem_with_103_gb_live_is_judged(warm: GpuGuard) -> None:
    before, total = driver.free_bytes()
    if total < 139 << 30:
        pytest.skip("needs a device with 139 GiB")
    right = _judge(warm, "screen", 256, RIGHT, correctness_only=True)
    assert isinstance(right, Result) and right.verdict is None, right
    assert right.stages["correctness"].state == "passed"
    assert any("judged_thriftily" in seen for seen in right.observations)
    wrong = _judge(warm, "screen", 256, WRONG, correctness_only=True)
    assert isinstance(wrong, Result)
    assert (wrong.verdict, wrong.reason) == ("REVERT", "wrong_result"), wrong.detail
    timed = _judge(warm, "compare", 256, RIGHT, pairs=2)
    assert isinstance(timed, Result) and timed.verdict is None, timed
    # After a block: one arm's buffers, and what the guard's allocator holds.
    assert min(state.free_bytes for state in timed.device_states) < total - 103e9
    assert before - driver.free_bytes()[0] <= 64 << 20


def test_a_problem_that_does_not_fit_is_refused_with_the_arithmetic(warm: GpuGuard) -> None:
    answer = _judge(warm, "screen", 512, RIGHT, correctness_only=True)
    assert isinstance(answer, Refusal)
    assert "do not hold this problem" in answer.error and "= 247.0 GiB" in answer.error
