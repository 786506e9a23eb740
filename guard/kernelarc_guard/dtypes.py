"""Dtype names of definitions as torch dtypes (imports torch)."""

import math
from typing import Final

import torch

from kernelarc_guard.definition import TensorSpec

_ALIASES: Final = {"float4_e2m1": "float4_e2m1fn_x2"}


def torch_dtype(name: str) -> torch.dtype:
    """Return the torch dtype of a definition's dtype name; ValueError where torch has none."""
    dtype = getattr(torch, _ALIASES.get(name, name), None)
    if not isinstance(dtype, torch.dtype):
        raise ValueError(f"dtype {name!r} is not known to this torch")
    return dtype


def is_float(dtype: torch.dtype) -> bool:
    """Say whether values of this dtype can be converted to float64; packed float4 cannot."""
    return dtype.is_floating_point and dtype is not torch_dtype("float4_e2m1")


def all_finite(tensor: torch.Tensor) -> bool:
    """Say whether all values are finite; those of a packed or whole type are."""
    if not is_float(tensor.dtype):
        return True
    # Torch asks no float8 whether it is finite.
    asked = tensor.to(torch.float32) if tensor.itemsize == 1 else tensor
    return bool(asked.isfinite().all())


def stored_shape(spec: TensorSpec, shape: tuple[int, ...]) -> tuple[int, ...]:
    """Return a tensor's shape in memory: packed float4 holds two values of the last dimension."""
    if _ALIASES.get(spec.dtype, spec.dtype) == _ALIASES["float4_e2m1"] and shape:
        return (*shape[:-1], math.ceil(shape[-1] / 2))
    return shape
