"""What a call returns, as outputs of a definition (imports torch)."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from kernelarc_guard.definition import DTYPES
from kernelarc_guard.formats.module_source import NotUsable


@dataclass(frozen=True)
class Output:
    """One output of one call."""

    name: str
    shape: tuple[int, ...] | None
    """None: a Python number."""
    dtype: str


def described(returned: Any, taken: Sequence[str]) -> list[Output]:
    """Return the outputs of a call, named apart from `taken`; NotUsable for what cannot be one."""
    named = _named(returned)
    used = set(taken)
    outputs: list[Output] = []
    for name, value in named:
        base = name if name.isidentifier() else f"output_{len(outputs)}"
        while base in used:
            base += "_out"
        used.add(base)
        outputs.append(_output(base, value))
    return outputs


def _named(returned: Any) -> list[tuple[str, Any]]:
    if isinstance(returned, dict):
        return [(str(key), value) for key, value in returned.items()]
    fields = getattr(type(returned), "_fields", None)
    if isinstance(returned, tuple) and fields:
        return list(zip(fields, returned, strict=True))
    if isinstance(returned, tuple | list):
        names = [f"output_{index}" for index in range(len(returned))]
        return (
            list(zip(names, returned, strict=True)) if len(names) > 1 else [("output", *returned)]
        )
    return [("output", returned)]


def _output(name: str, value: Any) -> Output:
    if isinstance(value, torch.Tensor):
        return Output(name, tuple(value.shape), dtype_name(name, value))
    if isinstance(value, bool):
        return Output(name, None, "bool")
    if isinstance(value, int):
        return Output(name, None, "int64")
    if isinstance(value, float):
        return Output(name, None, "float64")
    raise NotUsable(f"output {name} is a {type(value).__name__}; expected a tensor or a number")


def dtype_name(name: str, tensor: torch.Tensor) -> str:
    """Return a tensor's dtype as a definition writes it; NotUsable where it has no name for it."""
    dtype = str(tensor.dtype).removeprefix("torch.")
    if dtype not in DTYPES:
        raise NotUsable(f"{name} is {dtype}; expected one of {', '.join(DTYPES)}")
    return dtype
