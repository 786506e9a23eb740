"""On a GPU: what was compiled ahead, in a sandbox without the device, is what a first run finds."""

import json
import time
from typing import Any

import pytest
from gpu_guard import GpuGuard

from kernelarc_guard.protocol import Result

pytestmark = pytest.mark.needs_gpu
pytest.importorskip("triton", reason="Triton is not installed")

HEEDING = """

import torch


def _heed(cache_hit, **told):
    if not cache_hit and type(torch.empty(1)) is torch.Tensor:
        raise RuntimeError("compiled in a run")


triton.knobs.compilation.listener = _heed
"""
"""Ends a first run in which a kernel is compiled; tensors without memory are of another type."""
DEADLINE = 120.0


def heeding(guard: GpuGuard, number: int) -> dict[str, Any]:
    """Return a request about the Triton kernel, different for each number, that heeds compilations."""
    request = guard.request("screen", "rmsnorm", "rms_triton.py", correctness_only=True)
    request["candidate"]["sources"][0]["content"] += f"{HEEDING}\n# {number}\n"
    return request


def test_a_first_run_finds_all_that_was_compiled_ahead(warm: GpuGuard) -> None:
    request = heeding(warm, 1)
    ahead = {name: request[name] for name in ("device", "cache_dir", "schedule", "candidate")}
    problem = {name: request["problem"][name] for name in ("definition", "workloads")}
    line = json.dumps({"op": "prepare", "id": "next", **ahead, **problem})
    assert warm.process.stdin is not None
    warm.process.stdin.write(line.encode() + b"\n")
    warm.process.stdin.flush()
    limit = time.monotonic() + DEADLINE
    while not list(warm.cache.glob("ahead/*/told.json")):
        assert time.monotonic() < limit, "nothing was compiled ahead"
        time.sleep(0.05)
    result = warm.send(json.dumps(request).encode())
    assert isinstance(result, Result), result
    assert result.verdict is None, result.detail
    assert result.stages["correctness"].state == "passed"
    # Nothing else was left to compile: launchers neither.
    assert [one.message for one in result.build] == [
        "Triton: 1 kernel compiled before the first run"
    ]


def test_what_was_not_compiled_ahead_the_first_run_compiles(warm: GpuGuard) -> None:
    result = warm.send(json.dumps(heeding(warm, 2)).encode())
    assert isinstance(result, Result), result
    assert (result.reason, result.stage) == ("raised", "smoke"), result.detail
    assert "compiled in a run" in result.detail and not result.build
