"""Inputs that have the same values in every draw (imports torch)."""

from collections.abc import Mapping, Sequence

import torch

from kernelarc_guard.definition import Definition
from kernelarc_guard.draw import freedom
from kernelarc_guard.dtypes import is_float
from kernelarc_guard.inputs import Value
from kernelarc_guard.workload import RANDOM, Workload


def constant_inputs(
    definition: Definition, workload: Workload, draws: Sequence[Mapping[str, Value]]
) -> list[str]:
    """Return the tensor inputs with equal values in all of two draws or more that nothing varies.

    None where all inputs are equal: such a problem has fixed inputs, which is another matter.
    """
    first, *others = draws
    if all(equal_inputs(first, other) for other in others):
        return []
    return [
        name
        for name, value in first.items()
        if isinstance(value, torch.Tensor)
        and value.numel() > 1
        and all(equal_inputs({name: value}, {name: other[name]}) for other in others)
        and not _varied(definition, workload, name, value)
    ]


def equal_inputs(first: Mapping[str, Value], second: Mapping[str, Value]) -> bool:
    """Say whether the second has the values of the first, NaN being equal to NaN."""
    for name, value in first.items():
        other = second[name]
        if isinstance(value, torch.Tensor) and isinstance(other, torch.Tensor):
            if not torch.equal(_comparable(value), _comparable(other)):
                return False
        elif value != other:
            return False
    return True


def _comparable(tensor: torch.Tensor) -> torch.Tensor:
    # Torch has no arithmetic on values of one byte, and they need none: equal bits are equal.
    return tensor.view(torch.uint8) if tensor.element_size() == 1 else tensor.nan_to_num()


def _varied(definition: Definition, workload: Workload, name: str, value: torch.Tensor) -> bool:
    said = definition.kernelarc.distributions
    if isinstance(said, dict):
        return bool(said.get(name))
    if said is not None:
        return bool(said) and is_float(value.dtype)
    drawn = workload.inputs.get(name, RANDOM).type == "random"
    return drawn and freedom(name, definition.inputs[name], tuple(value.shape)) != "fixed"
