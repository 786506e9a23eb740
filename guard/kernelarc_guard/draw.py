"""What a random input looks like: by its name, shape and description (imports torch).

SOL-ExecBench draws half-way realistic values (ones for norm weights, a causal mask where one is
meant, scaled weight matrices); the same problems mean the same here. Its rules go by exact names, and
the first that fits decides.
"""

import math
import re
from collections.abc import Callable
from typing import Final, Literal

import torch

from kernelarc_guard.definition import TensorSpec
from kernelarc_guard.dtypes import torch_dtype

Freedom = Literal["free", "positive", "fixed"]
"""What a drawn input may become: any values, any positive ones, or only what its rule draws."""
_Rule = Callable[[str, str, tuple[int, ...]], bool]
_Draw = Callable[[tuple[int, ...], torch.Generator], torch.Tensor]

_PLAIN_FLOATS: Final = (torch.float32, torch.float16, torch.bfloat16)
_NORM: Final = r"norm\d*"
_BINARY_MASKS: Final = frozenset(
    {"x_mask", "text_mask", "aspect_ratio_mask", "drop_mask", "attention_mask"}
)
_MASK_WORDS: Final = ("binary", "{0, 1}", "0 or 1", "1.0 for valid", "0.0 for masked")


def draw(
    name: str, spec: TensorSpec, shape: tuple[int, ...], generator: torch.Generator
) -> torch.Tensor:
    """Draw one random tensor of the dtype and shape a definition declares."""
    dtype = torch_dtype(spec.dtype)
    if dtype in _PLAIN_FLOATS:
        description = spec.description.lower()
        for applies, values in _RULES:
            if applies(name, description, shape):
                return _rounded(values(shape, generator), dtype)
    return _by_dtype(dtype, shape, generator)


def _rounded(values: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """Return a rule's values in their dtype; what a mask forbids is the dtype's own minimum."""
    return values.to(dtype).clamp_min_(torch.finfo(dtype).min)


def freedom(name: str, spec: TensorSpec, shape: tuple[int, ...]) -> Freedom:
    """Say which other values the definition lets a random floating input have."""
    if torch_dtype(spec.dtype) in _PLAIN_FLOATS:
        description = spec.description.lower()
        for applies, values in _RULES:
            if applies(name, description, shape):
                return _FREEDOM.get(values, "fixed")
    return "free"


def _by_dtype(
    dtype: torch.dtype, shape: tuple[int, ...], generator: torch.Generator
) -> torch.Tensor:
    if dtype is torch.bool:
        return torch.randint(0, 2, shape, generator=generator, device=generator.device).to(
            torch.bool
        )
    if not dtype.is_floating_point:
        low, high = (-128, 128) if dtype is torch.int8 else (-1024, 1024)
        return torch.randint(
            low, high, shape, generator=generator, dtype=dtype, device=generator.device
        )
    if dtype is torch.float64:
        return torch.randn(shape, generator=generator, dtype=dtype, device=generator.device)
    values = _normal(shape, generator)
    if dtype.itemsize > 1:
        return values.to(dtype)
    if dtype is torch_dtype("float4_e2m1"):
        return _packed_float4(values)
    return values.clamp_(-2.0, 2.0).to(dtype)


_E2M1: Final = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0)
_E2M1_MIDDLES: Final = [(low + high) / 2 for low, high in zip(_E2M1, _E2M1[1:], strict=False)]


def _packed_float4(values: torch.Tensor) -> torch.Tensor:
    """Round to the nearest e2m1 value (ties to the even code) and pack pairs, low nibble first."""
    magnitude = values.abs()
    middles = torch.tensor(_E2M1_MIDDLES, device=values.device)
    below = torch.bucketize(magnitude, middles)
    above = torch.bucketize(magnitude, middles, right=True)
    codes = torch.where(below % 2 == 0, below, above).to(torch.uint8) | (
        torch.signbit(values).to(torch.uint8) << 3
    )
    if codes.shape[-1] % 2:
        codes = torch.nn.functional.pad(codes, (0, 1))
    packed = codes[..., ::2] | (codes[..., 1::2] << 4)
    return packed.contiguous().view(torch_dtype("float4_e2m1"))


def _normal(shape: tuple[int, ...], generator: torch.Generator) -> torch.Tensor:
    return torch.randn(shape, generator=generator, device=generator.device)


def _ones(shape: tuple[int, ...], generator: torch.Generator) -> torch.Tensor:
    return torch.ones(shape, device=generator.device)


def _zeros(shape: tuple[int, ...], generator: torch.Generator) -> torch.Tensor:
    return torch.zeros(shape, device=generator.device)


def _positive(shape: tuple[int, ...], generator: torch.Generator) -> torch.Tensor:
    return _normal(shape, generator).abs_() + 0.1


def _uniform(low: float, high: float) -> _Draw:
    return lambda shape, generator: (
        torch.rand(shape, generator=generator, device=generator.device) * (high - low) + low
    )


def _causal(shape: tuple[int, ...], generator: torch.Generator) -> torch.Tensor:
    return torch.full(shape, -math.inf, device=generator.device).triu(1)


def _softmax(shape: tuple[int, ...], generator: torch.Generator) -> torch.Tensor:
    return torch.softmax(_normal(shape, generator), -1)


def _scaled(shape: tuple[int, ...], generator: torch.Generator) -> torch.Tensor:
    return _normal(shape, generator) / math.sqrt(max(shape[-1], 1))


def _angle(function: Callable[[torch.Tensor], torch.Tensor]) -> _Draw:
    return lambda shape, generator: function(_normal(shape, generator).clamp_(-math.pi, math.pi))


def _cumulated(shape: tuple[int, ...], generator: torch.Generator) -> torch.Tensor:
    steps = _uniform(-0.1, 0.0)(shape, generator)
    return steps.cumsum(-1) if shape else steps


def _named(pattern: str) -> _Rule:
    compiled = re.compile(pattern)
    return lambda name, _description, _shape: compiled.search(name) is not None


def _is_causal_mask(name: str, description: str, shape: tuple[int, ...]) -> bool:
    square = len(shape) >= 2 and shape[-1] == shape[-2]
    told = "causal" in description and "attention mask" in description
    return square and (name in {"attention_mask", "causal_mask"} or told)


def _is_binary_mask(name: str, description: str, _: tuple[int, ...]) -> bool:
    told = name.endswith("_mask") and any(word in description for word in _MASK_WORDS)
    return name in _BINARY_MASKS or told


def _is_softmaxed(name: str, description: str, shape: tuple[int, ...]) -> bool:
    told = "softmax" in description and "output" in description
    named = name in {"attn_weights", "attention_weights", "routing_weights"}
    return bool(shape) and (named or told)


def _is_weight_matrix(name: str, _description: str, shape: tuple[int, ...]) -> bool:
    pattern = r"^weight\d*$|_(?:weights?|projs?|weight_matrix)\d*$"
    return len(shape) >= 2 and re.search(pattern, name) is not None


_RULES: Final[tuple[tuple[_Rule, _Draw], ...]] = (
    (_named(_NORM + r"_weight$"), _ones),
    (_named(_NORM + r"_bias$"), _zeros),
    (_is_causal_mask, _causal),
    (
        _is_binary_mask,
        lambda shape, generator: torch.randint(
            0, 2, shape, generator=generator, device=generator.device
        ).float(),
    ),
    (_named(r"^(?:cos|cos_cached|rope_cos)$"), _angle(torch.cos)),
    (_named(r"^(?:sin|sin_cached|rope_sin)$"), _angle(torch.sin)),
    (_named(r"(?:^|_)(?:(?:r?std|var)\d*|variance)$|^variance\d+$"), _positive),
    (_named(r"^A$"), _uniform(-1.0, -0.001)),
    (_named(r"^A_log$"), _uniform(-5.0, -1.0)),
    (_named(r"^A_cumsum$"), _cumulated),
    (_named(r"^g$"), _uniform(-5.0, 0.0)),
    (_is_softmaxed, _softmax),
    (_is_weight_matrix, _scaled),
)

_FREEDOM: Final[dict[_Draw, Freedom]] = {
    _ones: "free",
    _zeros: "free",
    _scaled: "free",
    _positive: "positive",
}
"""What the values of a rule may become; those of the other rules have a meaning to keep."""
