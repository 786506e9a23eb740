"""On a GPU: delays that the guard plants in a record, and canaries that see them."""

import json
from pathlib import Path
from statistics import fmean
from typing import Any

import pytest
from gpu_guard import FOLDER, GpuGuard

from kernelarc_guard.canary import LEVEL, p_greater
from kernelarc_guard.cuda.waiting import Clock, WaitKernel
from kernelarc_guard.pairs import pair_value, workload_values
from kernelarc_guard.problem import read_problem
from kernelarc_guard.protocol import Result
from kernelarc_guard.solution import read_solution
from kernelarc_mcp.host.duties import CANARY_PAIRS

pytestmark = pytest.mark.needs_gpu

_TRIES = 5
LARGE, SMALL = 1, 3
"""Workloads of RMSNorm: 268 MB, which the bandwidth bounds, and 4 MB, of which the launch is a large part."""


def canary(guard: GpuGuard, workloads: list[int], planted: float, pairs: int) -> Result:
    """Compare a kernel with itself and a delay, as a dispatcher does."""
    whole = read_problem(Path(__file__).parents[2] / "kernels" / "rmsnorm", "workload.gpu.jsonl")
    problem = whole.model_copy(update={"workloads": [whole.workloads[w] for w in workloads]})
    record = read_solution(FOLDER / "rms_cuda.cu", problem.definition)
    other = record.model_copy(update={"name": "candidate_2"})
    request = guard.request("compare", "rmsnorm", "rms_cuda.cu", pairs=pairs, planted=planted)
    request |= {
        "blocks": 4,
        "problem": problem.model_dump(mode="json"),
        "record": record.model_dump(mode="json"),
        "candidate": other.model_dump(mode="json"),
    }
    answer = guard.send(json.dumps(request).encode())
    assert isinstance(answer, Result), answer
    assert answer.verdict is None and answer.planted is not None
    return answer


def slower(result: Result) -> list[float]:
    """Return by how much (percent) each pair says that the delayed arm is slower."""
    return [-pair_value([(b.record, b.candidate) for b in p.blocks], [1.0]) for p in result.pairs]


def said(result: Result) -> str:
    """Return what the guard noted of the delay."""
    (note,) = (one for one in result.observations if one.startswith("delay_planted: "))
    return note


def test_the_waiting_kernel_waits_as_long_as_it_is_told(record_property: Any) -> None:
    kernel = WaitKernel()
    clock = kernel.look()
    record_property("clock", clock.name)
    assert clock.step_ns > 0 and 0.1 < clock.cycles_per_ns < 5
    timer = Clock(1, clock.cycles_per_ns)
    for ns in (0, 500, 5_000, 200_000):
        waits = [waited(kernel, ns, timer) for _ in range(_TRIES)]
        # The shortest: other contexts may have their turn meanwhile.
        assert ns <= min(waits) <= ns + 2 * clock.step_ns + 200, waits
    # Counted in cycles, as where the timer's steps are coarse, it is as long within a tenth.
    cycles = Clock(10_000, clock.cycles_per_ns)
    waits = [waited(kernel, 200_000, cycles) for _ in range(_TRIES)]
    assert abs(min(waits) - 200_000) < 20_000 + 2 * clock.step_ns, waits


def waited(kernel: WaitKernel, ns: int, clock: Clock) -> int:
    """Return the nanoseconds of the device's timer that one wait takes."""
    kernel.wait(ns, clock)
    return kernel.waited()[0]


def test_a_canary_sees_ten_percent_planted_in_a_bandwidth_bound_kernel(
    guard: GpuGuard, record_property: Any
) -> None:
    result = canary(guard, [LARGE], 10.0, CANARY_PAIRS)
    values = slower(result)
    record_property("delay", said(result))
    record_property("measured", f"{fmean(values):.2f} %")
    assert result.planted == pytest.approx(10.0)
    assert p_greater(values) <= LEVEL, values
    assert abs(fmean(values) - 10.0) < 3.0, values


def test_a_launch_bound_kernel_is_delayed_by_more_where_less_cannot_be_planted(
    guard: GpuGuard, record_property: Any
) -> None:
    result = canary(guard, [SMALL], 1.0, 6)
    values = slower(result)
    record_property("delay", said(result))
    record_property("measured", f"{fmean(values):.2f} %")
    assert result.planted is not None and 1.0 < result.planted < 70.0
    assert abs(fmean(values) - result.planted) < 6.0, (result.planted, values)


def test_a_short_workload_is_left_alone_and_the_long_one_carries_the_delay(
    guard: GpuGuard, record_property: Any
) -> None:
    # Of the short one that is less than a launch takes.
    result = canary(guard, [LARGE, SMALL], 3.0, CANARY_PAIRS)
    record_property("delay", said(result))
    assert result.planted == pytest.approx(3.0) and " 1 of 2 workloads" in said(result)
    gains = [
        workload_values([(b.record, b.candidate) for b in pair.blocks], 2) for pair in result.pairs
    ]
    large, small = (-fmean(one[w] for one in gains) for w in (0, 1))
    record_property("measured", f"{large:.2f} % and {small:.2f} %")
    assert large - small > 2.0, gains
