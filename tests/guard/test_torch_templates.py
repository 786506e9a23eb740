"""The templates in plain torch give the product they promise (those in Triton need a GPU)."""

from typing import Any

import pytest
import torch

from kernelarc_mcp.host.guides import templates


def loaded(name: str) -> dict[str, Any]:
    """Return the names that a template defines."""
    space: dict[str, Any] = {}
    exec(compile(templates()[name].text, name, "exec"), space)
    return space


@pytest.mark.parametrize("rows", [4, 100, 300])
def test_the_table_of_calls_adds_the_residual_in_every_variant(rows: int) -> None:
    x, weight, residual = torch.randn(rows, 512), torch.randn(512, 64), torch.randn(rows, 64)
    y = torch.full((rows, 64), torch.nan)
    loaded("addmm_table")["run"](x, weight, residual, y)
    torch.testing.assert_close(y, residual + x @ weight, atol=1e-3, rtol=0)


@pytest.mark.parametrize(("rows", "depth"), [(4, 4096), (4, 100), (2000, 512)])
def test_a_split_inner_dimension_gives_the_same_product(rows: int, depth: int) -> None:
    x, weight = torch.randn(rows, depth), torch.randn(depth, 64)
    got = loaded("split_k_bmm")["run"](x, weight)
    torch.testing.assert_close(got, x @ weight, atol=2e-3, rtol=0)
