"""On a GPU: what one kernel sees of an output is what the operators see."""

import pytest
import torch
from gpu_guard import GpuGuard

from kernelarc_guard import precision, tolerance
from kernelarc_guard.cuda import comparing
from kernelarc_guard.tolerance import MODES
from kernelarc_guard.workload import Tolerance

pytestmark = pytest.mark.needs_gpu

TYPES = (torch.bfloat16, torch.float16, torch.float32, torch.float64)
SHAPES = ((5,), (64, 33, 7), (300, 1000))
TOLERANCE = Tolerance(max_atol=3e-3, max_rtol=7e-3)


def _sides(dtype: torch.dtype, shape: tuple[int, ...]) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator("cuda").manual_seed(7)
    wanted, off = (
        torch.randn(shape, generator=generator, device="cuda", dtype=torch.float64)
        for _ in range(2)
    )
    return (wanted * (1 + 0.01 * off)).to(dtype), wanted


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("dtype", TYPES)
def test_a_comparison_in_one_pass_is_that_of_the_operators(
    guard: GpuGuard, dtype: torch.dtype, shape: tuple[int, ...]
) -> None:
    got, wanted = _sides(dtype, shape)
    rows = wanted.numel() // precision.row_length(shape)
    limits = (
        None,
        torch.full((1, 1), 0.01, device="cuda", dtype=torch.float64),
        torch.linspace(0, 0.02, rows, device="cuda", dtype=torch.float64).reshape(-1, 1),
    )
    for mode in MODES.values():
        for limit in limits:
            for other in (wanted, wanted.to(dtype)):
                seen = comparing.seen(
                    got, other, limit, TOLERANCE.max_rtol, TOLERANCE.max_atol, mode.either
                )
                assert seen == tolerance._seen(got, other, TOLERANCE, mode, limit)


@pytest.mark.parametrize("dtype", TYPES)
def test_the_sizes_of_rows_in_one_pass_are_those_of_the_operators(
    guard: GpuGuard, dtype: torch.dtype
) -> None:
    got, wanted = _sides(dtype, (300, 1000))
    found = comparing.row_sizes(got, wanted, 1000)
    assert found is not None
    off, size = found
    assert torch.equal(off, (got.double() - wanted).abs().amax(-1, keepdim=True))
    assert torch.equal(size, wanted.abs().amax(-1, keepdim=True))


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_what_is_not_finite_is_left_to_the_operators(guard: GpuGuard, value: float) -> None:
    got, wanted = _sides(torch.float32, (64, 64))
    got[3, 5] = value
    assert comparing.seen(got, wanted, None, 0.1, 0.1, either=False) is None
    assert comparing.row_sizes(got, wanted, 64) is None
