"""Packed key caches of FlashInfer-Bench's index problems: drawn so that they can be unpacked."""

import pytest
import torch

from kernelarc_guard.definition import Definition
from kernelarc_guard.inputs import InputError, make_inputs
from kernelarc_guard.problem import Problem
from kernelarc_guard.variety import Variety
from kernelarc_guard.workload import Workload

NAME = "dsa_topk_indexer_fp8_h64_d128_topk2048_ps64"
CACHE = "k_index_cache_fp8"
SHAPE: list[str] | None = ["pages", "tokens", "1", "width"]


def _definition(
    name: str = NAME,
    shape: list[str] | None = SHAPE,
    dtype: str = "int8",
    cache: str = CACHE,
    out: str = "int32",
) -> Definition:
    return Definition.model_validate(
        {
            "name": name,
            "axes": {
                "pages": {"type": "var"},
                "tokens": {"type": "const", "value": 64},
                "width": {"type": "const", "value": 132},
            },
            "inputs": {cache: {"shape": shape, "dtype": dtype}},
            "outputs": {"out": {"shape": ["pages"], "dtype": out}},
            "reference": f"def run({cache}):\n    return {cache}[:, 0, 0, 0]\n",
        }
    )


def _drawn(definition: Definition, pages: int = 5, seed: int = 7) -> torch.Tensor:
    workload = Workload(uuid="w", axes={"pages": pages})
    (value,) = make_inputs(definition, workload, seed).values()
    assert isinstance(value, torch.Tensor)
    return value


def _unpacked(cache: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the float8 values, as float32, and the scales of a cache's tokens."""
    pages, tokens, _, width = cache.shape
    flat = cache.reshape(pages, -1)
    at = tokens * (width - 4)
    values = flat[:, :at].contiguous().view(torch.float8_e4m3fn).reshape(pages, tokens, -1)
    return values.float(), flat[:, at:].contiguous().view(torch.float32)


def test_a_cache_of_packed_keys_unpacks_to_normal_keys_with_a_scale_per_token() -> None:
    cache = _drawn(_definition())
    assert cache.dtype is torch.int8
    assert cache.shape == (5, 64, 1, 132)
    values, scales = _unpacked(cache)
    assert scales.shape == (5, 64)
    assert bool((values.abs().amax(-1) == 448).all())
    keys = values * scales.unsqueeze(-1)
    # Of 40,960 normal values: eight standard errors.
    assert abs(float(keys.mean())) < 0.04
    assert abs(float(keys.std()) - 1) < 0.03


def test_the_seed_decides_a_cache_of_packed_keys() -> None:
    first, again, other = (_drawn(_definition(), seed=seed) for seed in (1, 1, 2))
    assert torch.equal(first, again)
    assert not torch.equal(first, other)


def test_a_cache_of_no_pages_is_empty() -> None:
    assert _drawn(_definition(), pages=0).shape == (0, 64, 1, 132)


@pytest.mark.parametrize(("name", "cache"), [("gemm", CACHE), (NAME, "k_cache")])
def test_only_this_input_of_these_definitions_is_packed(name: str, cache: str) -> None:
    values, _ = _unpacked(_drawn(_definition(name, cache=cache)))
    assert bool(values.isnan().any())


@pytest.mark.parametrize(
    ("shape", "dtype", "got"),
    [
        (SHAPE, "int32", "int32 [5, 64, 1, 132]"),
        (["pages", "tokens", "width"], "int8", "int8 [5, 64, 132]"),
        (["pages", "tokens", "2", "width"], "int8", "int8 [5, 64, 2, 132]"),
        (["pages", "tokens", "1", "4"], "int8", "int8 [5, 64, 1, 4]"),
        (None, "int32", "a Python scalar"),
    ],
)
def test_a_cache_of_another_form_is_an_error_that_says_which(
    shape: list[str] | None, dtype: str, got: str
) -> None:
    with pytest.raises(InputError) as raised:
        make_inputs(_definition(shape=shape, dtype=dtype), Workload(uuid="w", axes={"pages": 5}), 1)
    assert str(raised.value) == (
        f"input k_index_cache_fp8: {got}; expected a cache of packed keys to draw, "
        "int8 [pages, tokens, 1, length of a key + 4]"
    )


@pytest.mark.parametrize(("name", "kinds"), [(NAME, []), ("gemm", ["edge"])])
def test_no_other_values_are_derived_for_packed_keys(name: str, kinds: list[str]) -> None:
    definition = _definition(name, out="float32")
    workload = Workload(uuid="w", axes={"pages": 2})
    problem = Problem(definition=definition, workloads=[workload])
    variety = Variety(problem, [make_inputs(definition, workload, 1)])
    assert variety.kinds(0) == kinds
