"""What adding one after the other does to an answer is allowed, for as many terms as there are."""

from collections.abc import Callable

import pytest
import torch

from kernelarc_guard.growth import reach, walked, widest
from kernelarc_guard.oracle import Answer, Oracle
from kernelarc_guard.problem import Problem
from kernelarc_guard.tolerance import compare

LENGTH = 4096


def _problem(body: str, output: list[str]) -> Problem:
    return Problem.model_validate(
        {
            "definition": {
                "name": "d",
                "axes": {name: {"type": "var"} for name in "rc"},
                "inputs": {"x": {"shape": ["r", "c"], "dtype": "float32"}},
                "outputs": {"y": {"shape": output, "dtype": "float32"}},
                "reference": f"import torch\ndef run(x):\n    return {body}\n",
            },
            "workloads": [
                {
                    "uuid": "w",
                    "axes": {"r": 8, "c": LENGTH},
                    "tolerance": {"max_atol": 0.05, "max_rtol": 0.05},
                }
            ],
        }
    )


UNIT = _problem("x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-6)", ["r", "c"])
SUM = _problem("x.sum(-1)", ["r"])
BEND = _problem("torch.sin(x)", ["r", "c"])


def _answer(problem: Problem, x: torch.Tensor) -> Answer:
    return Oracle(problem).answer(problem.workloads[0], {"x": x})


def _passes(problem: Problem, answer: Answer, y: torch.Tensor, *, longer: bool = True) -> bool:
    scales = answer.widen() if longer else answer.scales
    tolerance = problem.workloads[0].tolerance
    return compare({"y": y}, answer.expected, tolerance, problem.definition, scales=scales).ok


def _added(terms: torch.Tensor, lanes: int) -> torch.Tensor:
    """Add float32 terms of each row in so many accumulators."""
    sums = torch.zeros(terms.shape[0], lanes)
    for step in terms.reshape(terms.shape[0], -1, lanes).unbind(1):
        sums = sums + step
    return sums.sum(-1)


def _normal() -> torch.Tensor:
    return torch.randn(8, LENGTH, generator=torch.Generator().manual_seed(7))


def _spiked(at: int) -> torch.Tensor:
    x = _normal()
    x[:, at] = 4096.0
    return x


VALUES: dict[str, Callable[[], torch.Tensor]] = {
    "normal": _normal,
    "positive": lambda: _normal().abs(),
    "constant rows": lambda: _normal()[:, :1].expand(8, LENGTH).contiguous(),
    "a spike": lambda: _spiked(100),
    "a spike at the end": lambda: _spiked(-1),
    "every other zero": lambda: _normal() * (torch.arange(LENGTH) % 2),
    "a slope": lambda: torch.linspace(-2, 2, LENGTH).repeat(8, 1),
}


@pytest.mark.parametrize("values", VALUES)
@pytest.mark.parametrize("lanes", [1, 4, 16])
def test_sums_in_one_or_a_few_accumulators_are_honest(values: str, lanes: int) -> None:
    x = VALUES[values]()
    factor = torch.rsqrt(_added(x * x, lanes).unsqueeze(-1) / LENGTH + 1e-6)
    assert _passes(UNIT, _answer(UNIT, x), x * factor)
    assert _passes(SUM, _answer(SUM, x), _added(x, lanes))


def test_the_first_look_alone_would_refuse_an_honest_sum_of_equal_terms() -> None:
    x = VALUES["constant rows"]()
    factor = torch.rsqrt(_added(x * x, 1).unsqueeze(-1) / LENGTH + 1e-6)
    assert not _passes(UNIT, _answer(UNIT, x), x * factor, longer=False)


@pytest.mark.parametrize("values", ["normal", "positive"])
def test_narrow_arithmetic_is_refused_however_long_the_sum(values: str) -> None:
    x = VALUES[values]()
    mean = x.square().mean(-1, keepdim=True) + 1e-6
    right = torch.rsqrt(mean)
    short = x.reshape(8, -1, 256).square().sum(-1).bfloat16().float().sum(-1, keepdim=True)
    answer = _answer(UNIT, x)
    assert _passes(UNIT, answer, x * right)
    assert not _passes(UNIT, answer, x.bfloat16().float() * right)
    assert not _passes(UNIT, answer, x.half().float() * right)
    assert not _passes(UNIT, answer, x * torch.rsqrt(short / LENGTH + 1e-6))
    assert not _passes(UNIT, answer, x * right * (1 + 2.0**-12))


def test_a_sum_that_cancels_is_refused_with_narrow_operands() -> None:
    x = _normal()
    assert not _passes(SUM, _answer(SUM, x), x.bfloat16().float().sum(-1))


def test_elements_that_add_nothing_up_are_given_nothing() -> None:
    # What is left is an input's last place; rows of this length would be given 30 times as much.
    answer = _answer(BEND, _normal())
    assert float((answer.widen()["y"] / answer.scales["y"]).max()) < 8


def test_the_reach_is_how_many_elements_an_output_element_depends_on() -> None:
    tensors = {"a": torch.randn(5, 7).double(), "b": torch.randn(7, 3).double()}
    assert reach(lambda t: [t["a"] @ t["b"]], tensors) == {"a": 7, "b": 7}
    assert reach(lambda t: [t["a"].sin()], tensors) == {"a": 1, "b": 0}
    assert reach(lambda t: [t["a"].cumsum(1)], tensors) == {"a": 7, "b": 0}
    assert reach(lambda t: [t["a"].sum()], tensors) == {"a": 35, "b": 0}


def test_a_reference_that_writes_to_its_inputs_has_a_reach_too() -> None:
    tensors = {"a": torch.randn(5, 7).double()}
    assert reach(lambda t: [t["a"].mul_(2).sum(1)], tensors) == {"a": 7}


@pytest.mark.parametrize(
    "body", ["torch.from_numpy(x.numpy().sum(-1))", "x.detach().sum(-1)"], ids=["numpy", "detached"]
)
def test_without_gradients_the_longest_dimension_counts(body: str) -> None:
    problem = _problem(body, ["r"])
    x = VALUES["positive"]()
    assert _passes(problem, _answer(problem, x), _added(x, 1))
    assert widest({"a": torch.zeros(3, 9), "b": torch.zeros(())}) == {"a": 9, "b": 1}


def test_equal_terms_move_a_sum_by_their_number_and_others_by_its_root() -> None:
    generator = torch.Generator().manual_seed(1)
    same, mixed = torch.ones(64, LENGTH).double(), torch.rand(64, LENGTH).double() + 0.5
    moved = [
        float((walked(x, LENGTH, 0, generator)[0] - x).sum(-1).abs().mean() / x.sum(-1).mean())
        for x in (same, mixed)
    ]
    assert 0.2 * LENGTH < moved[0] * 2**24 < 0.6 * LENGTH
    assert 0.2 * LENGTH**0.5 < moved[1] * 2**24 < LENGTH**0.5


@pytest.mark.parametrize("shape", [(6,), (4, 6), (6, 4), (5, 5), (0, 6), ()])
def test_moved_inputs_keep_their_shape(shape: tuple[int, ...]) -> None:
    moved, far = walked(torch.ones(shape), 6, 1, torch.Generator())
    assert (far > 0) == (moved.numel() > 0)
    assert moved.shape == torch.Size(shape) and moved.dtype is torch.float64
