"""Tolerances for a problem that states none, from what its reference gives (imports torch)."""

import math
import time
from typing import Final

import torch

from kernelarc_guard.dtypes import is_float, torch_dtype
from kernelarc_guard.inputs import make_inputs
from kernelarc_guard.oracle import Oracle
from kernelarc_guard.problem import Problem
from kernelarc_guard.workload import Tolerance, Workload

_RELATIVE: Final = {
    torch.float64: 1e-8,
    torch.float32: 1e-4,
    torch.float16: 1e-2,
    torch.bfloat16: 2e-2,
}
_NARROW: Final = 0.1
_SEEDS: Final = (1, 2, 3)
_MARGIN: Final = 4.0
"""How many times the reference's own error the absolute bound is at least."""
_SECONDS: Final = 20.0


def propose(
    problem: Problem, place: str, max_atol: float | None, max_rtol: float | None
) -> dict[str, Tolerance]:
    """Return a tolerance for every workload, by uuid, where one is given taking that.

    The relative bound goes by the least exact floating output, the absolute one by the size of the
    values and by the reference's error against float64. Once 20 s are spent, larger workloads take
    the largest absolute bound so far. Integers must be equal.
    """
    definition = problem.definition
    dtypes = [torch_dtype(spec.dtype) for spec in definition.outputs.values()]
    floating = [dtype for dtype in dtypes if is_float(dtype)]
    rtol = max((_RELATIVE.get(dtype, _NARROW) for dtype in floating), default=0.0)
    rtol = rtol if max_rtol is None else max_rtol
    oracle = Oracle(problem, place)
    begin = time.monotonic()
    found: dict[str, Tolerance] = {}
    largest = 0.0
    by_size = sorted(problem.workloads, key=lambda one: math.prod(one.axes.values()))
    for workload in by_size:
        if max_atol is None and floating and (not found or time.monotonic() - begin < _SECONDS):
            largest = max(largest, _absolute(problem, oracle, workload, rtol))
        found[workload.uuid] = Tolerance(
            max_atol=largest if max_atol is None else max_atol,
            max_rtol=rtol,
            required_matched_ratio=1.0,
        )
    return found


def _absolute(problem: Problem, oracle: Oracle, workload: Workload, rtol: float) -> float:
    bound = 0.0
    for seed in _SEEDS:
        inputs = make_inputs(
            problem.definition, workload, seed, folder=problem.folder, device=oracle.place
        )
        answer = oracle.answer(workload, inputs)
        for name, declared in answer.declared.items():
            if not is_float(declared.dtype):
                continue
            exact = answer.expected[name].to(torch.float64)
            finite = exact[exact.isfinite()]
            if not finite.numel():
                continue
            error = (declared.to(torch.float64) - exact).abs().nan_to_num(nan=0.0, posinf=0.0)
            size = float(finite.square().mean().sqrt())
            bound = max(bound, rtol * size, _MARGIN * float(error.max()))
    return _rounded_up(bound)


def _rounded_up(value: float) -> float:
    """Return a value rounded up to two digits."""
    if value <= 0:
        return 0.0
    unit = 10.0 ** (math.floor(math.log10(value)) - 1)
    return float(f"{math.ceil(value / unit) * unit:.3g}")
