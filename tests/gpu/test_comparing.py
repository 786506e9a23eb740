"""On a GPU: what one kernel sees of an output is what the operators see."""

import pytest
import torch
from cancelling import FOUND, drawn, one_by_one, product
from gpu_guard import GpuGuard

from kernelarc_guard import precision, tolerance
from kernelarc_guard.cuda import comparing
from kernelarc_guard.oracle import Oracle
from kernelarc_guard.tolerance import MODES, compare
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


@pytest.mark.parametrize(("kind", "seed"), FOUND)
def test_where_values_cancel_a_plain_sum_has_the_leeway_that_it_has_on_a_cpu(
    guard: GpuGuard, kind: str, seed: int
) -> None:
    problem = product()
    [workload] = problem.workloads
    draw = drawn(kind, seed, place="cuda")
    answer = Oracle(problem, "cuda").answer(workload, draw.inputs)
    outputs = {"y": one_by_one(*draw.tensors.values())}
    held = (outputs, answer.expected, workload.tolerance, problem.definition)
    assert not compare(*held, scales=answer.widen()).ok
    assert compare(*held, scales=answer.widen(), leeway=answer.leeway()).ok
    spoilt = ({"y": outputs["y"] * (1 + 2.0**-9)}, *held[1:])
    assert not compare(*spoilt, scales=answer.widen(), leeway=answer.leeway()).ok
