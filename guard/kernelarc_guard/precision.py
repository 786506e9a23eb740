"""How large an honest error is: the scale that the `strict` tolerance multiplies (imports torch).

The scale of a row is the largest error there of the reference in its declared precision against
float64. An element, or a row, where the reference happens to be exact must not ask a kernel to be
exact too: the scale is at least half a unit in the last place of the row's largest value, and at
least what nine rows in ten show relative to theirs.
"""

import math
from collections.abc import Iterable, Mapping
from typing import Final

import torch

from kernelarc_guard.dtypes import is_float
from kernelarc_guard.growth import MARGIN

KAPPA: Final = 16.0
"""How many error scales an element of a 32-bit output may be off."""
KAPPA_NARROW: Final = 4.0
"""The same for outputs of 16 bits and fewer, whose rounding dominates every honest error."""
ROW: Final = 32
"""A row is the last dimension, widened by the ones before it until it has this many elements."""

Scales = dict[str, torch.Tensor]
"""Output name -> one scale per row, `[rows, 1]` in float64; an output without one is not bounded."""


def has_scale(dtype: torch.dtype) -> bool:
    """Say whether float64 is a better answer than this dtype's own."""
    return is_float(dtype) and dtype is not torch.float64


def kappa(dtype: torch.dtype) -> float:
    """Return how many scales an element of this dtype may be off."""
    return KAPPA_NARROW if dtype.itemsize <= 2 else KAPPA


def row_length(shape: tuple[int, ...]) -> int:
    """Return how many trailing elements share one scale."""
    length = 1
    for size in reversed(shape):
        if length >= ROW:
            break
        length *= size
    return max(length, 1)


def error_scales(
    declared: Mapping[str, torch.Tensor], expected: Mapping[str, torch.Tensor]
) -> Scales:
    """Return every output's scale from the reference's two answers to the same inputs."""
    scales = {}
    for name, one in declared.items():
        if has_scale(one.dtype) and one.numel():
            scales[name] = _scale(*_errors_and_sizes(one, expected[name]), one.dtype)
    return scales


def scale_where_finite(declared: torch.Tensor, exact: torch.Tensor) -> torch.Tensor | None:
    """Return an output's scale from its two answers, with one look at them.

    None where it has no scale, or a value of either is not finite.
    """
    if not has_scale(declared.dtype) or not is_float(exact.dtype) or not declared.numel():
        return None
    found = _finite_errors_and_sizes(declared, exact)
    return None if found is None else _scale(*found, declared.dtype)


def widened(
    scales: Scales, expected: Mapping[str, torch.Tensor], moved: Mapping[str, torch.Tensor]
) -> Scales:
    """Return scales that also cover what inputs moved by one last place do to the answer."""
    wide = {}
    for name, one in scales.items():
        exact = _rows(expected[name])
        off = _largest((_rows(moved[name]) - exact).abs_())
        wide[name] = torch.maximum(one, _evened(off, _sizes(exact)))
    return wide


def grown(
    scales: Scales,
    declared: Mapping[str, torch.Tensor],
    expected: Mapping[str, torch.Tensor],
    walks: Iterable[tuple[Mapping[str, torch.Tensor], float]],
) -> Scales:
    """Return scales that also allow what adding one after the other does (see `growth`).

    `walks` are answers to inputs moved so, and how far; kappa scales then hold `growth.MARGIN` of
    the root mean square of either.
    """
    squares, far = mean_squares(scales, expected, walks)
    wide = dict(scales)
    for name, mean in squares.items():
        if mean.numel():
            sizes = _sizes(_rows(expected[name]))
            usual = _evened(_largest(mean.sqrt_()), sizes)
            usual = torch.maximum(usual, sizes * math.sqrt(far))
            wide[name] = torch.maximum(scales[name], usual * (MARGIN / kappa(declared[name].dtype)))
    return wide


def mean_squares(
    names: Iterable[str],
    expected: Mapping[str, torch.Tensor],
    walks: Iterable[tuple[Mapping[str, torch.Tensor], float]],
) -> tuple[dict[str, torch.Tensor], float]:
    """Return the mean squares of what walks do to each element, and of how far they went.

    By output, `[rows, elements]` in float64; none where there is no walk.
    """
    squares = {name: torch.zeros_like(_rows(expected[name])) for name in names}
    count = 0
    far = 0.0
    for moved, one in walks:
        count += 1
        far += one**2
        for name, total in squares.items():
            total += (_rows(moved[name]) - _rows(expected[name])).square_()
    if not count:
        return {}, 0.0
    return {name: total.div_(count) for name, total in squares.items()}, far / count


def nudged(tensor: torch.Tensor, eps: float, generator: torch.Generator) -> torch.Tensor:
    """Return a float64 tensor with every element moved by up to `eps` of its size, at random."""
    moves = torch.rand(
        tensor.shape, generator=generator, dtype=torch.float64, device=generator.device
    )
    return tensor.to(torch.float64) * (1.0 + eps * (2.0 * moves - 1.0))


def _scale(errors: torch.Tensor, sizes: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    return torch.maximum(_evened(errors, sizes), _floor(sizes, dtype))


def _errors_and_sizes(
    one: torch.Tensor, expected: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return each row's largest finite error and its largest finite magnitude."""
    found = _finite_errors_and_sizes(one, expected)
    if found is not None:
        return found
    exact = _rows(expected)
    return _largest(_rows(one).sub_(exact).abs_()), _sizes(exact)


def _finite_errors_and_sizes(
    one: torch.Tensor, expected: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor] | None:
    """Return the same where all of both is finite, which an error is only then; else None."""
    if one.is_cuda:
        from kernelarc_guard.cuda.comparing import row_sizes

        found = row_sizes(one, expected, row_length(tuple(one.shape)))
        if found is not None:
            return found
    exact = _rows(expected)
    worst = _rows(one).sub_(exact).abs_().amax(-1, keepdim=True)
    return (worst, _sizes(exact)) if bool(torch.isfinite(worst).all()) else None


def _rows(tensor: torch.Tensor) -> torch.Tensor:
    length = row_length(tuple(tensor.shape))
    return tensor.to(torch.float64).reshape(-1, length)


def _largest(errors: torch.Tensor) -> torch.Tensor:
    """Return each row's largest finite entry."""
    worst = errors.amax(-1, keepdim=True)
    if not bool(torch.isfinite(worst).all()):
        worst = errors.nan_to_num_(nan=0.0, posinf=0.0).amax(-1, keepdim=True)
    return worst


def _sizes(exact: torch.Tensor) -> torch.Tensor:
    """Return each row's largest finite magnitude."""
    low, high = torch.aminmax(exact, dim=-1, keepdim=True)
    size = torch.maximum(-low, high)
    return size if bool(torch.isfinite(size).all()) else _largest(exact.abs())


def _evened(errors: torch.Tensor, sizes: torch.Tensor) -> torch.Tensor:
    """Raise each row's error to what nine rows in ten show relative to their sizes."""
    # Looked up once: each look waits for a device.
    there = (sizes.reshape(-1) > 0).nonzero().reshape(-1)
    relative = errors.reshape(-1)[there] / sizes.reshape(-1)[there]
    if not relative.numel():
        return errors
    usual = relative.kthvalue(math.ceil(0.9 * relative.numel())).values
    return torch.maximum(errors, usual * sizes)


def _floor(sizes: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    info = torch.finfo(dtype)
    # Kernels may flush subnormals to zero; half precision's are too large to ignore.
    smallest = info.smallest_normal * (info.eps if info.max < 1e6 else 1.0)
    return (sizes * (info.eps / 2)).clamp_min(smallest)
