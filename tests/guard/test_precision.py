"""How large an honest error is: honest algorithms stay well inside, lower precision far outside."""

from collections.abc import Callable

import pytest
import torch

from kernelarc_guard.oracle import Oracle
from kernelarc_guard.precision import (
    KAPPA,
    KAPPA_NARROW,
    error_scales,
    kappa,
    row_length,
    scale_where_finite,
)
from kernelarc_guard.problem import Problem
from kernelarc_guard.tolerance import compare

Kernel = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]


def _problem(body: str, dtype: str = "float32") -> Problem:
    return Problem.model_validate(
        {
            "definition": {
                "name": "d",
                "axes": {name: {"type": "var"} for name in "mkn"},
                "inputs": {
                    "a": {"shape": ["m", "k"], "dtype": dtype},
                    "b": {"shape": ["k", "n"], "dtype": dtype},
                },
                "outputs": {"y": {"shape": ["m", "n"], "dtype": dtype}},
                "reference": f"import torch\ndef run(a, b):\n    return {body}\n",
            },
            "workloads": [
                {
                    "uuid": "w",
                    "axes": {"m": 16, "k": 256, "n": 40},
                    "tolerance": {"max_atol": 0.5, "max_rtol": 0.5},
                }
            ],
        }
    )


def _passes(problem: Problem, kernel: Kernel, seed: int) -> bool:
    generator = torch.Generator().manual_seed(seed)
    spec = problem.definition.inputs["a"].dtype
    dtype = torch.float32 if spec == "float32" else torch.bfloat16
    a = torch.randn(16, 256, generator=generator).to(dtype)
    b = torch.randn(256, 40, generator=generator).to(dtype)
    workload = problem.workloads[0]
    answer = Oracle(problem).answer(workload, {"a": a, "b": b})
    outputs = {"y": kernel(a, b)}
    return any(
        compare(outputs, answer.expected, workload.tolerance, problem.definition, scales=scales).ok
        for scales in (answer.scales, answer.widen())
    )


def _tf32(tensor: torch.Tensor) -> torch.Tensor:
    return ((tensor.view(torch.int32) + 0x1000) & ~0x1FFF).view(torch.float32)


def _outer_products(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    y = torch.zeros(a.shape[0], b.shape[1])
    for k in range(a.shape[1]):
        y = y + a[:, k : k + 1] * b[k : k + 1]
    return y


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize(
    ("right", "kernel"),
    [
        (True, lambda a, b: a @ b),
        (True, _outer_products),
        (True, lambda a, b: (a.double() @ b.double()).float()),
        (True, lambda a, b: (b.T @ a.T).T),
        (False, lambda a, b: (a.bfloat16() @ b.bfloat16()).float()),
        (False, lambda a, b: _tf32(a) @ _tf32(b)),
        (False, lambda a, b: a.half().float() @ b.half().float()),
    ],
    ids=["library", "one by one", "float64", "transposed", "bfloat16", "tf32", "half"],
)
def test_a_product_in_declared_precision_passes_whatever_its_order(
    right: bool, kernel: Kernel, seed: int
) -> None:
    assert _passes(_problem("a @ b"), kernel, seed) is right


def test_sixteen_bit_outputs_may_be_rounded_once_but_not_computed_in_eight() -> None:
    problem = _problem("a @ b", "bfloat16")
    assert _passes(problem, lambda a, b: (a.float() @ b.float()).bfloat16(), 1)

    def eight(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        narrow = [one.to(torch.float8_e4m3fn).float() for one in (a, b)]
        return (narrow[0] @ narrow[1]).bfloat16()

    assert not _passes(problem, eight, 1)


def test_an_exact_reference_leaves_room_for_the_last_place() -> None:
    exact = {"y": torch.full((4, 40), 1.5, dtype=torch.float64)}
    scale = error_scales({"y": torch.full((4, 40), 1.5)}, exact)["y"]
    assert scale.shape == (4, 1)
    assert torch.allclose(scale, torch.full_like(scale, 1.5 * 2**-24))


def test_a_lucky_row_is_given_what_the_others_need() -> None:
    exact = torch.ones(10, 40, dtype=torch.float64)
    declared = torch.full((10, 40), 1.0 + 2**-20)
    declared[3] = 1.0
    scale = error_scales({"y": declared}, {"y": exact})["y"]
    assert float(scale[3]) == pytest.approx(2**-20)


def test_one_bad_row_gives_the_others_no_room() -> None:
    exact = torch.ones(20, 40, dtype=torch.float64)
    declared = torch.ones(20, 40)
    declared[3] = 1.01
    scale = error_scales({"y": declared}, {"y": exact})["y"]
    assert float(scale[4]) == pytest.approx(2**-24)


def test_a_cancelling_sum_is_judged_by_what_its_inputs_last_places_do() -> None:
    problem = _problem("(a @ b) - (a @ b.flip(1)).flip(1)")
    generator = torch.Generator().manual_seed(3)
    inputs = {
        "a": torch.randn(16, 256, generator=generator),
        "b": torch.randn(256, 40, generator=generator),
    }
    answer = Oracle(problem).answer(problem.workloads[0], inputs)
    assert float(answer.widen()["y"].max()) >= float(answer.scales["y"].max())
    assert float(answer.widen()["y"].max()) < 1e-3


def test_float64_and_integer_outputs_have_no_scale() -> None:
    outputs = {"y": torch.ones(3, dtype=torch.float64), "i": torch.ones(3, dtype=torch.int64)}
    assert error_scales(outputs, outputs) == {}
    assert [scale_where_finite(one, one) for one in outputs.values()] == [None, None]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float8_e4m3fn])
@pytest.mark.parametrize("odd", [None, "declared", "exact", "both", "overflows"])
def test_one_look_at_both_answers_sees_what_is_not_finite_in_either(
    dtype: torch.dtype, odd: str | None
) -> None:
    generator = torch.Generator().manual_seed(5)
    exact = torch.randn(6, 70, generator=generator, dtype=torch.float64)
    declared = exact.to(dtype)
    if odd in ("declared", "both"):
        declared[2, 3] = float("nan")
    if odd in ("exact", "both"):
        exact[2, 3] = float("inf") if odd == "exact" else float("nan")
    if odd == "overflows":  # only the sum of them does
        exact[:, 0] = 1.7e308
    scale = scale_where_finite(declared, exact)
    if odd in (None, "overflows"):
        assert scale is not None
        assert torch.equal(scale, error_scales({"y": declared}, {"y": exact})["y"])
    else:
        assert scale is None


def test_kappa_and_rows_are_as_documented() -> None:
    assert (kappa(torch.float32), kappa(torch.float16)) == (KAPPA, KAPPA_NARROW) == (16.0, 4.0)
    assert row_length((7, 1000)) == 1000
    assert row_length((9, 8, 5)) == 40
    assert row_length((3, 4)) == 12
    assert row_length(()) == 1
