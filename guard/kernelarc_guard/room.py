"""How much of a GPU's memory a problem needs, and how it is judged in what there is (imports torch).

Everything that lives at the same time is counted: the runners' buffers of all workloads, what the
guard draws, what it keeps of answers, and what the reference and the comparison need.
"""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from kernelarc_guard.definition import TensorSpec
from kernelarc_guard.dtypes import is_float, stored_shape, torch_dtype
from kernelarc_guard.problem import Problem, ProblemError

_CONTEXTS: Final = 3 << 30
"""What the contexts of the guard and two or three runners take, with their libraries."""
_PIECES: Final = 4 << 30
"""What comparing needs, which goes piece by piece."""
_GRANULE: Final = 2 << 20
_CANARIES: Final = 512
_KEPT_ANSWERS: Final = 8
"""Outputs of one workload that are alive at once: copies, and earlier ones a replay is looked for in."""


@dataclass(frozen=True)
class Part:
    """Something that takes memory."""

    what: str
    bytes: int


@dataclass(frozen=True)
class Room:
    """How a problem is judged in a device's memory."""

    arms: int
    """Runners with their buffers at the same time."""
    thrifty: bool
    """One draw at a time and no copies."""
    parts: tuple[Part, ...]

    @property
    def need(self) -> int:
        """Return the bytes of all parts."""
        return sum(part.bytes for part in self.parts)

    def arithmetic(self) -> str:
        """Return the sum, part by part."""
        told = " + ".join(f"{_gib(part.bytes)} {part.what}" for part in self.parts)
        return f"{told} = {_gib(self.need)} GiB"


def room_for(problem: Problem, have: int, together: int) -> Room:
    """Return how a problem is judged on a device with `have` bytes.

    Best `together` arms at once; else one arm at a time, a draw at a time and no copies, which needs
    `oracle: declared`. ProblemError with the arithmetic where neither fits.
    """
    best = _roomy(problem, together)
    if best.need <= have:
        return best
    least = _thrifty(problem)
    declared = problem.definition.kernelarc.oracle == "declared"
    if declared and least.need <= have:
        return least
    why = f"{together} arms at once need {best.arithmetic()}"
    if least.need > have:
        why += f"; one at a time, {least.arithmetic()}"
    else:
        why += (
            f"; one at a time, checked in the declared precision (kernelarc.oracle: declared), it "
            f"would fit: {least.arithmetic()}"
        )
    raise ProblemError(f"workloads: the device's {_gib(have)} GiB do not hold this problem: {why}")


def _roomy(problem: Problem, together: int) -> Room:
    sizes = [_Sizes.of(problem, axes) for axes in _axes(problem)]
    one = max(sizes, key=lambda size: size.checking)
    return Room(
        together,
        thrifty=False,
        parts=(
            Part("contexts and pieces", _CONTEXTS + _PIECES),
            Part(f"buffers of {together} arms", together * sum(size.buffers for size in sizes)),
            Part("last inputs and outputs of each workload", sum(size.both for size in sizes)),
            Part("new inputs of the largest", one.inputs),
            Part("kept answers", _KEPT_ANSWERS * one.outputs),
            Part("the reference and float64", one.checking),
        ),
    )


def _thrifty(problem: Problem) -> Room:
    sizes = [_Sizes.of(problem, axes) for axes in _axes(problem)]
    one = max(sizes, key=lambda size: 2 * size.inputs + size.outputs)
    return Room(
        1,
        thrifty=True,
        parts=(
            Part("contexts and pieces", _CONTEXTS + _PIECES),
            Part("buffers of one arm", sum(size.buffers for size in sizes)),
            Part("inputs", one.inputs),
            Part("the reference's copy of them", one.inputs),
            Part("its outputs", one.outputs),
        ),
    )


@dataclass(frozen=True)
class _Sizes:
    """Bytes of one workload."""

    inputs: int
    outputs: int
    buffers: int
    """In allocations of their own."""
    checking: int
    """The reference's copies and answers, in the declared precision and in float64."""

    @property
    def both(self) -> int:
        return self.inputs + self.outputs

    @classmethod
    def of(cls, problem: Problem, axes: Mapping[str, int]) -> "_Sizes":
        definition = problem.definition
        inputs = list(_tensors(definition.inputs, axes))
        outputs = list(_tensors(definition.outputs, axes))
        narrow = [sum(one.bytes for one in side) for side in (inputs, outputs)]
        checking = sum(narrow)
        if definition.kernelarc.oracle != "declared":
            # Its answer, and the error of every element while scales are made of it.
            checking += sum(one.wide for one in inputs) + 3 * sum(one.wide for one in outputs)
        return cls(
            narrow[0], narrow[1], sum(_granules(one.bytes) for one in (*inputs, *outputs)), checking
        )


@dataclass(frozen=True)
class _Tensor:
    bytes: int
    wide: int
    """In float64, where it is of floating type."""


def _tensors(specs: Mapping[str, TensorSpec], axes: Mapping[str, int]) -> Iterable[_Tensor]:
    for spec in specs.values():
        if spec.shape is None:
            continue
        shape = tuple(axes[one] if one in axes else int(one) for one in spec.shape)
        count, dtype = math.prod(stored_shape(spec, shape)), torch_dtype(spec.dtype)
        size = count * dtype.itemsize
        yield _Tensor(size, 8 * count if is_float(dtype) else size)


def _axes(problem: Problem) -> list[dict[str, int]]:
    return [problem.definition.resolve(workload.axes) for workload in problem.workloads]


def _granules(size: int) -> int:
    return -(-(size + _CANARIES) // _GRANULE) * _GRANULE


def _gib(size: int) -> str:
    return f"{size / (1 << 30):.1f}"
