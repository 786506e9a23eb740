"""Caches of packed keys, where integers drawn at random would be no cache at all (imports torch).

FlashInfer-Bench draws the keys of its `dsa_topk_indexer...` definitions and packs them: a page holds the
float8 values of all its tokens and behind them one float32 scale per token, all as bytes.
"""

from typing import Final

import torch

from kernelarc_guard.definition import Definition

DEFINITIONS: Final = "dsa_topk_indexer"
"""How the names of definitions with such a cache begin."""
_INPUT: Final = "k_index_cache_fp8"
_SCALE_BYTES: Final = 4
_LARGEST: Final = 448.0
"""Of float8_e4m3fn."""
_LEAST: Final = 1e-4
"""What a token's largest key counts as where it is smaller."""


def is_packed(definition: Definition, name: str) -> bool:
    """Say whether a random input of a definition is a cache of packed keys."""
    return definition.name.startswith(DEFINITIONS) and name == _INPUT


def packed_keys(
    dtype: str, shape: tuple[int, ...] | None, generator: torch.Generator
) -> torch.Tensor:
    """Draw a cache: int8 [pages, tokens of a page, 1, length of a key + 4].

    Raises ValueError for another dtype or shape.
    """
    match shape:
        case (pages, tokens, 1, width) if dtype == "int8" and width > _SCALE_BYTES:
            length = width - _SCALE_BYTES
        case _:
            got = "a Python scalar" if shape is None else f"{dtype} {list(shape)}"
            raise ValueError(
                f"{got}; expected a cache of packed keys to draw, "
                f"int8 [pages, tokens, 1, length of a key + {_SCALE_BYTES}]"
            )
    keys = torch.randn(
        (pages, tokens, length),
        generator=generator,
        dtype=torch.bfloat16,
        device=generator.device,
    )
    scales = keys.abs().float().amax(-1, keepdim=True).clamp_min_(_LEAST) / _LARGEST
    values = (keys * (1.0 / scales)).to(torch.float8_e4m3fn)
    parts = values.view(torch.uint8), scales.view(torch.uint8)
    packed = torch.cat([part.reshape(pages, tokens * part.shape[-1]) for part in parts], 1)
    return packed.view(torch.int8).reshape(shape)


def keys_at(cache: torch.Tensor, places: torch.Tensor) -> torch.Tensor:
    """Return the keys at some places of a cache times their scales, float64 [..., length of a key].

    A place is `page * tokens of a page + token`.
    """
    pages, tokens, _, width = cache.shape
    length = width - _SCALE_BYTES
    raw = cache.contiguous().view(torch.uint8).reshape(pages, tokens * width)
    values = raw[:, : tokens * length].reshape(pages * tokens, length)
    scales = raw[:, tokens * length :].reshape(pages * tokens, _SCALE_BYTES)
    keys = values[places].view(torch.float8_e4m3fn).to(torch.float64)
    return keys * scales[places].view(torch.float32).to(torch.float64)
