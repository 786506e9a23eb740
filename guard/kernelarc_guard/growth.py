"""What adding one after the other in float32 does to an answer (imports torch).

A sum of n terms in one accumulator equals the exact sum of terms that were moved a little: each
addition rounds everything added so far, so the first term is moved by all n roundings and the last
by one. Roundings of different terms are independent. While (almost) equal terms are added, or such
that are tiny beside the sum and mostly lost, they repeat, and n of them move it n times as far. Moving
the inputs of a float64 reference in just this way says how far honest sums may be off for just these
inputs, whatever the reference does with its sums. Where it divides by a sum that a few inputs
dominate, both move and the effect cancels: so outputs may always be as far off, relative to their
row, as inputs were moved.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Final

import torch

from kernelarc_guard.dtypes import is_float

WALKS: Final = 8
"""How often inputs are moved; the root of the mean square is not a matter of luck then."""
MARGIN: Final = 4.0
"""How many of those an element may be off: an honest sum's rounding is about half as large."""
_UNIT: Final = 2.0**-24
"""Half a unit in the last place of float32, which honest sums of narrower values use too."""
_ROUNDING: Final = _UNIT / math.sqrt(3)
"""The root mean square of one rounding."""
_FEW: Final = 4
"""Roundings that arithmetic without a sum has."""
_TINY: Final = 256.0
"""A term that is so many times smaller than one before it counts as tiny: squared, 2^-16 of it."""

Reach = dict[str, int]
"""Input name -> how many of its elements one output element depends on."""


def reach(
    run: Callable[[Mapping[str, torch.Tensor]], Sequence[torch.Tensor]],
    tensors: Mapping[str, torch.Tensor],
) -> Reach:
    """Count by gradient what an output element depends on: the most of a first, middle and last one.

    `run` computes floating outputs from the float64 tensors. Raises what it raises, RuntimeError
    also where it cannot be differentiated.
    """
    with torch.enable_grad():
        leaves = {name: one.detach().requires_grad_() for name, one in tensors.items()}
        # A reference that writes to its inputs may do so to these, which are not leaves.
        outputs = run({name: one.clone() for name, one in leaves.items()})
        counts = dict.fromkeys(leaves, 0)
        for output in outputs:
            if output.numel() == 0 or not output.requires_grad:
                continue
            flat = output.reshape(-1)
            for at in {0, flat.numel() // 2, flat.numel() - 1}:
                grads = torch.autograd.grad(
                    flat[at], list(leaves.values()), retain_graph=True, allow_unused=True
                )
                for name, grad in zip(leaves, grads, strict=True):
                    if grad is not None:
                        counts[name] = max(counts[name], int(torch.count_nonzero(grad)))
    return counts


def widest(tensors: Mapping[str, torch.Tensor]) -> Reach:
    """Return each tensor's longest dimension, for references that cannot be differentiated."""
    return {name: max(one.shape, default=1) for name, one in tensors.items()}


def walked(
    tensor: torch.Tensor, length: int, turn: int, generator: torch.Generator
) -> tuple[torch.Tensor, float]:
    """Return a float64 tensor moved as sums over `length` of its elements move them, and how far.

    How far is the root mean square, relative, in the row where it is largest. The elements lie along a dimension of that length (one after the other by `turn` where several have it),
    else side by side in memory order.
    """
    if length < 2 or not is_float(tensor.dtype):
        return tensor.to(torch.float64), 0.0
    return _along(tensor, length, turn, lambda rows: _roundings(rows, generator))


def walked_either_way(
    tensor: torch.Tensor, length: int, longest: int, turn: int, generator: torch.Generator
) -> tuple[torch.Tensor, float]:
    """Return the same for one element of an answer: in half of the turns sums begin at their other end.

    Each element is moved by as much again, at random: what all of a row share (a mean that is
    subtracted) is nothing where the row's own move happens to be equal. An element that is no term of a
    sum may be what a sum of `longest` terms begins with (a bias, a residual): it is moved by as many
    roundings.
    """
    values = tensor.to(torch.float64)
    if not is_float(tensor.dtype):
        return values, 0.0

    def normal(like: torch.Tensor) -> torch.Tensor:
        return torch.randn(like.shape, generator=generator, dtype=torch.float64, device=like.device)

    def moves_of(rows: torch.Tensor) -> torch.Tensor:
        backwards = turn // 2 % 2 == 1
        moves = _roundings(rows.flip(-1) if backwards else rows, generator)
        moves = moves.flip(-1) if backwards else moves
        return moves + normal(moves) * moves.square().mean(-1, keepdim=True).sqrt_()

    if length >= 2:
        return _along(tensor, length, turn, moves_of)
    far = _ROUNDING * math.sqrt(max(longest, _FEW))
    return values * (1.0 + normal(values) * far), far


def _along(
    tensor: torch.Tensor,
    length: int,
    turn: int,
    moves_of: Callable[[torch.Tensor], torch.Tensor],
) -> tuple[torch.Tensor, float]:
    """Return a float64 tensor whose rows were moved by what a function says, and how far."""
    values = tensor.to(torch.float64)
    fitting = [dim for dim, size in enumerate(values.shape) if size == length]
    if fitting:
        dim = fitting[turn % len(fitting)]
        rows = values.movedim(dim, -1)
        moves = moves_of(rows)
        return (rows * (1.0 + moves)).movedim(-1, dim), _most(moves)
    flat = values.reshape(-1)
    rows = torch.nn.functional.pad(flat, (0, -flat.numel() % length)).reshape(-1, length)
    moves = moves_of(rows)
    moved = (rows * (1.0 + moves)).reshape(-1)[: flat.numel()]
    return moved.reshape(values.shape), _most(moves)


def _most(moves: torch.Tensor) -> float:
    return float(moves.square().mean(-1).max().sqrt()) if moves.numel() else 0.0


def _roundings(rows: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """Return by how much of itself each term of a row is moved."""
    drawn = torch.rand(rows.shape, generator=generator, dtype=torch.float64, device=rows.device)
    drawn = drawn - 0.5
    # Between a half and one, of either sign: a run of repeated roundings takes a single one of them.
    steps = (drawn + 0.5 * torch.sign(drawn)) * _UNIT
    places = torch.arange(rows.shape[-1], device=rows.device).expand(rows.shape)
    new = torch.ones(rows.shape, dtype=torch.bool, device=rows.device)
    sizes = rows.abs()
    largest = sizes.cummax(-1).values[..., 1:]
    # Terms that differ by less than the last place of a sum of so many are equal to it.
    new[..., 1:] = (rows[..., 1:] - rows[..., :-1]).abs() > rows.shape[-1] * _UNIT * largest
    new[..., 1:] &= sizes[..., 1:] * _TINY > largest
    starts = torch.where(new, places, 0).cummax(-1).values
    steps = steps.gather(-1, starts)
    return steps.flip(-1).cumsum(-1).flip(-1)
