"""Inputs that a right solution does not read, because the problem always draws the same.

Imports torch. Nobody knows which other values are legal for them, so nothing is refused; but who
reads the verdict should know what the solution would not notice.
"""

import secrets

import torch

from kernelarc_guard.arm import Arm
from kernelarc_guard.bench import Bench
from kernelarc_guard.constants import constant_inputs
from kernelarc_guard.draws import Draw
from kernelarc_guard.faults import SolutionFault
from kernelarc_guard.oracle import OracleError

_PLAIN = (torch.bool, torch.float16, torch.bfloat16, torch.float32, torch.float64)
_DRAWS = 3


def left_out(bench: Bench, arm: Arm, workload: int) -> list[str]:
    """Return a note on every constant input whose change the solution does not notice.

    Inputs of floating or truth values only: integers may be places in memory. A solution that fails
    on values nobody promised is not at fault, and none is noted; its runner has ended.
    """
    problem, drawer = bench.problem, bench.drawer
    draws = [drawer.fresh(workload) for _ in range(_DRAWS)]
    names = constant_inputs(
        problem.definition, problem.workloads[workload], [draw.inputs for draw in draws]
    )
    notes = []
    for name in names:
        if draws[-1].tensors[name].dtype not in _PLAIN:
            continue
        try:
            unread = _unread(bench, arm, workload, draws[-1], name)
        except SolutionFault:
            break
        if unread:
            notes.append(
                f"input_left_out: {name} was changed and the answer was still the one for its usual"
                " values; right as long as the problem never draws others"
            )
    return notes


def _unread(bench: Bench, arm: Arm, workload: int, draw: Draw, name: str) -> bool:
    changed = Draw(draw.inputs | {name: _moved(draw.tensors[name])}, "changed values")
    try:
        answer = bench.oracle.answer(bench.problem.workloads[workload], changed.inputs)
    except OracleError:
        return False
    if bench.judge(workload, answer.declared, draw).ok:
        return False  # the reference does not notice either
    arm.call(workload, changed)
    return bench.judge(workload, arm.outputs(workload), draw).ok


def _moved(value: torch.Tensor) -> torch.Tensor:
    """Return the values at other places; where all are the same, other values at half of them."""
    generator = torch.Generator(value.device).manual_seed(secrets.randbits(63))
    flat = value.reshape(-1)
    if not bool((flat == flat[0]).all()):
        order = torch.randperm(flat.numel(), generator=generator, device=value.device)
        return _like(value, flat[order])
    half = torch.rand(flat.numel(), generator=generator, device=value.device) < 0.5
    half[0] = True
    other = ~flat if flat.dtype is torch.bool else flat * 1.5 + 0.5
    return _like(value, torch.where(half, other, flat))


def _like(value: torch.Tensor, flat: torch.Tensor) -> torch.Tensor:
    """Return values in the order of rows, laid out in memory as another tensor is."""
    laid = torch.empty_strided(value.shape, value.stride(), dtype=value.dtype, device=value.device)
    return laid.copy_(flat.reshape(value.shape))
