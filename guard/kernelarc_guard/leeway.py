"""How far an honest float32 kernel may be off in each element for just these inputs (imports torch).

A workload's tolerance is stated for the values that its problem draws. With other values large terms may
cancel in an element, and then float32 carries it no further than the rounding of those terms: not a plain
sum, and the reference only by luck. What `growth` says of every row is asked here of every element.

A tolerance mode without the bound of `strict` admits less precision than float32. How much is read from
the workload's own values: as many of their leeways as the tolerance has room for there.
"""

import math
from collections.abc import Iterable, Mapping
from typing import Final

import torch

from kernelarc_guard.growth import MARGIN
from kernelarc_guard.precision import mean_squares, row_length
from kernelarc_guard.tolerance import Mode
from kernelarc_guard.workload import Tolerance

Leeway = dict[str, torch.Tensor]
"""Output name -> the largest honest error of each element, float64, in the output's shape."""
NONE: Final[Leeway] = {}


def leeway_of(
    names: Iterable[str],
    expected: Mapping[str, torch.Tensor],
    walks: Iterable[tuple[Mapping[str, torch.Tensor], float]],
) -> Leeway:
    """Return what each element of the named outputs may be off; nothing where nothing was moved.

    `walks` are answers to inputs moved as sums move them, and how far. `growth.MARGIN` of the root mean
    square of what that does to the element is allowed, at least as much as to half of its row's elements (what
    all share must not be small in one of them by luck), and as many of how far the inputs were moved,
    relative to the element. Nothing is allowed where an answer stops being finite.
    """
    squares, far = mean_squares(names, expected, walks)
    leeway: Leeway = {}
    for name, mean in squares.items():
        lost = ~mean.isfinite()
        rows = mean.sqrt_().masked_fill_(lost, 0.0)
        usual = torch.maximum(rows, rows.median(-1, keepdim=True).values)
        usual += expected[name].abs().mul_(math.sqrt(far)).reshape(usual.shape)
        leeway[name] = usual.mul_(MARGIN).masked_fill_(lost, 0.0).reshape(expected[name].shape)
    return leeway


def leeways_within(
    leeway: Leeway, expected: Mapping[str, torch.Tensor], tolerance: Tolerance, mode: Mode
) -> dict[str, float]:
    """Return how many leeways a tolerance has room for in every element of each output, at least one.

    `leeway` and `expected` are of inputs that the workload draws itself.
    """
    room = {}
    for name, one in leeway.items():
        bound = mode.bound(expected[name].to(torch.float64).abs(), tolerance)
        asked = one > 0
        least = float((bound[asked] / one[asked]).min()) if bool(asked.any()) else 1.0
        room[name] = max(1.0, least)
    return room


def times(
    leeway: Leeway,
    room: Mapping[str, float],
    expected: Mapping[str, torch.Tensor],
    tolerance: Tolerance,
    mode: Mode,
) -> Leeway:
    """Return so many leeways, and nowhere more than the tolerance at the largest value of a row."""
    many: Leeway = {}
    for name, one in leeway.items():
        rows = (one * room[name]).reshape(-1, row_length(tuple(one.shape)))
        sizes = expected[name].to(torch.float64).abs().reshape(rows.shape)
        largest = sizes.nan_to_num_(nan=0.0, posinf=0.0).amax(-1, keepdim=True)
        capped = torch.minimum(rows, mode.bound(largest, tolerance)).reshape(one.shape)
        many[name] = torch.maximum(capped, one)
    return many
