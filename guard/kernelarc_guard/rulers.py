"""Physical limits: the least time that a call can have taken, from a device's rulers; pure.

What every honest kernel surely does is little: it is woken, and where it writes to the guard's own
poisoned buffers it writes every byte of them. It need not read all its inputs (a gather, a triangle,
an early exit), and a tensor that it returns may have pages that nobody ever wrote. The floor counts
only what is sure. Reading and writing everything once is where a closer look begins.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Final

from kernelarc_guard.definition import TensorSpec
from kernelarc_guard.pairs import Times
from kernelarc_guard.problem import Problem
from kernelarc_guard.rule import Rulers
from kernelarc_guard.solution import Solution

MARGIN: Final = 2.0
"""A window may be so many times shorter than the best that the guard ever saw."""

_BYTES: Final = {"float64": 8, "int64": 8, "float32": 4, "int32": 4, "float16": 2, "bfloat16": 2}
"""Of one element; dtypes that are not here have one byte. Packed float4 holds two values in each."""


@dataclass(frozen=True)
class Limits:
    """Nanoseconds for each workload."""

    least: tuple[float, ...]
    """A median window below this did not hold the work."""
    audit: tuple[float, ...]
    """A window below this is checked in full: all inputs and outputs would barely pass through."""


def limits_of(rulers: Rulers, problem: Problem, solution: Solution) -> Limits:
    """Return the limits of a solution's windows on a problem's workloads."""
    threads = problem.definition.kernelarc.threads
    passing = solution.spec.destination_passing_style
    least, audit = [], []
    for read, written in traffic(problem):
        sure = written if passing else 0
        writing = 1e9 * sure / (rulers.write_bytes_per_second * threads)
        passing_all = 1e9 * (read + written) / (rulers.copy_bytes_per_second * threads)
        least.append((rulers.empty_window_ns + writing) / MARGIN)
        audit.append(rulers.empty_window_ns + passing_all)
    return Limits(tuple(least), tuple(audit))


def below(blocks: Sequence[Times], limits: Sequence[float]) -> tuple[int, float] | None:
    """Return the first workload whose median window in one arm's blocks is below its limit.

    With that median in nanoseconds; None where there is no such workload.
    """
    for workload, limit in enumerate(limits):
        typical = median(time for block in blocks for time in block[workload])
        if typical < limit:
            return workload, float(typical)
    return None


def traffic(problem: Problem) -> list[tuple[int, int]]:
    """Return the bytes of all inputs and of all outputs of each workload."""
    definition = problem.definition
    found = []
    for workload in problem.workloads:
        resolved = definition.resolve(workload.axes)
        found.append((_total(definition.inputs, resolved), _total(definition.outputs, resolved)))
    return found


def _total(specs: Mapping[str, TensorSpec], resolved: Mapping[str, int]) -> int:
    return sum(_nbytes(spec, resolved) for spec in specs.values())


def _nbytes(spec: TensorSpec, resolved: Mapping[str, int]) -> int:
    if spec.shape is None:
        return 0
    sizes = [resolved[axis] if axis in resolved else int(axis) for axis in spec.shape]
    count = math.prod(sizes)
    if spec.dtype.startswith("float4"):
        return count // 2
    return count * _BYTES.get(spec.dtype, 1)
