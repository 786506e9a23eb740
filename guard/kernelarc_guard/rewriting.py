"""Rewriting a part of an input with values the problem could have drawn there (imports torch).

Caches that look at a few bytes of their input are right as long as everything changes at once.
"""

import secrets
from typing import Literal

import torch

from kernelarc_guard.dtypes import is_float

Part = Literal["elements", "rows"]


def partly(old: torch.Tensor, fresh: torch.Tensor, part: Part) -> torch.Tensor | None:
    """Return `old` with some values of `fresh` at their own places, None where that is not legal.

    Both are draws of the same input. Structure that rows cannot carry alone (symmetry, order) or
    that single elements would break (equal sums, permutations, masks) is looked for first.
    """
    if not _mixes(old, fresh, part):
        return None
    mixed = torch.empty_strided(old.shape, old.stride(), dtype=old.dtype, device=old.device).copy_(
        old
    )
    row = secrets.randbelow(old.shape[0])
    if part == "rows":
        mixed[row] = fresh[row]
        return mixed
    one = [secrets.randbelow(size) for size in old.shape]
    if old.ndim > 1:
        one[0] = row
    mixed[tuple(one)] = fresh[tuple(one)]
    return mixed


def _mixes(old: torch.Tensor, fresh: torch.Tensor, part: Part) -> bool:
    if not is_float(old.dtype) or old.numel() < 2 or old.ndim == 0:
        return False
    if part == "rows" and (old.ndim < 2 or old.shape[0] < 2):
        return False
    if torch.equal(old, fresh) or _ordered(old):
        return False
    if old.ndim == 2 and old.shape[0] == old.shape[1] and torch.equal(old, old.T):
        return False
    return part == "rows" or _free(old, fresh)


def _ordered(tensor: torch.Tensor) -> bool:
    flat = tensor.reshape(-1)[: 1 << 16] if tensor.ndim == 1 else tensor[0].reshape(-1)
    if flat.element_size() == 1:
        flat = flat.to(torch.float32)  # torch cannot compare float8
    return flat.numel() > 2 and bool((flat[1:] >= flat[:-1]).all() or (flat[1:] <= flat[:-1]).all())


def _free(old: torch.Tensor, fresh: torch.Tensor) -> bool:
    """Say whether elements look drawn one by one from many values."""
    first, second = _row(old), _row(fresh)
    both = torch.cat([first, second])
    if not bool(both.isfinite().all()) or distinct(both) < 0.99 * both.numel():
        return False
    if old.ndim > 1 and old.shape[0] > 1 and first.numel() > 2:
        sums = old.reshape(old.shape[0], -1)[:64].to(torch.float64).sum(-1)
        return not bool(((sums - sums[0]).abs() <= 1e-4 * sums[0].abs()).all())
    return True


def distinct(flat: torch.Tensor) -> int:
    """Return how many different values a one-dimensional tensor has."""
    values = flat.sort().values
    return min(values.numel(), 1) + int(torch.count_nonzero(values[1:] != values[:-1]))


def _row(tensor: torch.Tensor) -> torch.Tensor:
    flat = tensor.reshape(-1) if tensor.ndim == 1 else tensor[0].reshape(-1)
    return flat[:4096].to(torch.float64)
