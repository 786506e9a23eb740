"""Other values for an input than its problem draws: the kinds, each a function of one tensor (imports torch).

Kinds that only multiply by powers of two keep zeros, order and distinctness; the others are for
inputs whose every value is legal.
"""

import math
from collections.abc import Callable
from typing import Final

import torch

from kernelarc_guard.definition import KINDS
from kernelarc_guard.draw import Freedom
from kernelarc_guard.dtypes import is_float

_Kind = Callable[[torch.Tensor, torch.Generator], torch.Tensor]
"""float32 or float64 values of any shape -> other values of that shape and type."""

_NARROW: Final = 2
"""Bytes of an element."""
GENTLE: Final = ("scaled",)
"""Kinds for tensors of a problem's own generator, whose meaning is not known."""
POSITIVE: Final = ("scaled", "spiked")
"""Kinds for inputs that stay positive."""
UNTIED: Final = ("scaled", "signed")
"""Kinds for problems that answer with integers: equal values would leave several right answers."""


def changed(tensor: torch.Tensor, kind: str, generator: torch.Generator) -> torch.Tensor:
    """Return a tensor like a drawn one (dtype, shape, strides) with values of another kind."""
    if tensor.numel() == 0:
        return tensor
    if not is_float(tensor.dtype):
        return _like(tensor, _skewed(tensor, generator))
    top = torch.finfo(tensor.dtype).max / 8
    # float32 holds all of a narrow type and moves half the bytes.
    before = tensor.to(torch.float32 if tensor.itemsize <= _NARROW else torch.float64)
    values = _KINDS[kind](before, generator)
    # What was infinite before (a mask) stays so; nothing else becomes it.
    return _like(tensor, torch.where(before.isfinite(), values.clamp(-top, top), before))


def kinds_for(freedom: Freedom, tied: bool) -> tuple[str, ...]:
    """Return the kinds that an input of some freedom may be drawn in."""
    if freedom == "fixed":
        return ()
    if tied:
        return UNTIED if freedom == "free" else GENTLE
    return POSITIVE if freedom == "positive" else KINDS


def _like(tensor: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
    return torch.empty_like(tensor).copy_(values)


def _pick(generator: torch.Generator, count: int) -> int:
    return int(torch.randint(count, (), generator=generator, device=generator.device))


def _scaled(values: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    factors = (2.0**-10, 2.0**-4, 2.0**3, 2.0**6)
    if values.ndim < 2 or _pick(generator, 2):
        return values * factors[_pick(generator, 4)]
    # A factor of its own for each row: no row may borrow its scale from another.
    rows = torch.randint(4, (values.shape[0],), generator=generator, device=generator.device)
    scale = torch.tensor(factors, dtype=values.dtype, device=values.device)[rows]
    return values * scale.reshape(-1, *[1] * (values.ndim - 1))


def _shifted(values: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    return values + (-6.0, -2.5, 3.0, 8.0)[_pick(generator, 4)]


def _signed(values: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    if bool((values >= 0).all()):
        signs = torch.randint(2, values.shape, generator=generator, device=generator.device)
        signs = signs * 2 - 1
        return values * signs
    return -values


def _spiked(values: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    flat = values.reshape(-1).clone()
    count = min(flat.numel(), 1 + _pick(generator, 4))
    places = torch.randint(flat.numel(), (count,), generator=generator, device=generator.device)
    if _pick(generator, 2):
        places[-1] = flat.numel() - 1  # sums that stop early miss the last one
    spikes = flat[places]
    # Far enough that an exponential leaves float64 too, not only float32.
    size = spikes.abs().clamp_min(_usual(flat)) * 2.0**10
    flat[places] = torch.sign(spikes) * size
    return flat.reshape(values.shape)


def _usual(flat: torch.Tensor) -> float:
    return float(flat.abs().nan_to_num_(nan=0.0, posinf=0.0).mean())


def _structured(values: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    length = values.shape[-1] if values.ndim else 1
    choice = _pick(generator, 4)
    if choice == 0:  # one sign and one size within a row
        return values[..., :1].expand(values.shape) if values.ndim else values
    if choice == 1:  # a slope
        return torch.linspace(-2, 2, length, dtype=values.dtype, device=values.device).expand(
            values.shape
        )
    places = torch.arange(length, device=values.device)
    wave = places % 2 == 0 if choice == 2 else places < length // 2
    return values * wave.to(values.dtype) if values.ndim else values


def _edge(values: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    choice = _pick(generator, 4)
    if choice == 0:
        return values.abs()
    if choice == 1:
        return -values.abs()
    edged = values.clone()
    row = _pick(generator, max(1, values.shape[0])) if values.ndim else 0
    if choice == 2 and values.ndim:  # a row of nothing at all
        edged[row] = 0.0
    elif values.ndim:
        edged[row] = math.ldexp(1.0, -40) * torch.sign(edged[row])
    return edged


def _skewed(tensor: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """Let most integers be one of those that were drawn."""
    flat = tensor.reshape(-1)
    often = flat[_pick(generator, flat.numel())]
    keep = torch.rand(flat.shape, generator=generator, device=generator.device) < 0.1
    return torch.where(keep, flat, often).reshape(tensor.shape)


_KINDS: Final[dict[str, _Kind]] = {
    "scaled": _scaled,
    "shifted": _shifted,
    "signed": _signed,
    "spiked": _spiked,
    "structured": _structured,
    "edge": _edge,
}
