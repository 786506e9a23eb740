"""The oracle: the reference's answer, more exactly; and problems that cannot be judged."""

from typing import Any

import pytest
import torch

from kernelarc_guard.check_problem import by_size, check_problem
from kernelarc_guard.oracle import Oracle, OracleError
from kernelarc_guard.problem import Problem, ProblemError

OUT = {"y": {"shape": ["n"], "dtype": "float32"}}


def _problem(body: str, outputs: dict[str, Any] | None = None, **more: Any) -> Problem:
    """Build a problem with the inputs x (float32) and i (int64), both of length n."""
    keys = more.pop("kernelarc", {})
    sizes = more.pop("sizes", [5])
    inputs = more.pop("inputs", {})
    tolerance = {"max_atol": 1e-5, "max_rtol": 1e-5, "required_matched_ratio": 1.0}
    return Problem.model_validate(
        {
            "definition": {
                "name": "d",
                "axes": {"n": {"type": "var"}},
                "inputs": {
                    "x": {"shape": ["n"], "dtype": "float32"},
                    "i": {"shape": ["n"], "dtype": "int64"},
                },
                "outputs": outputs or OUT,
                "reference": f"import torch\n\ndef run(x, i):\n    {body}\n",
                "kernelarc": keys,
                **more,
            },
            "workloads": [
                {
                    "uuid": f"n{size}",
                    "axes": {"n": size},
                    "inputs": inputs,
                    "tolerance": tolerance,
                }
                for size in sizes
            ],
        }
    )


def _inputs(values: list[float]) -> dict[str, torch.Tensor | bool | int | float]:
    return {"x": torch.tensor(values), "i": torch.arange(len(values))}


def test_the_expected_outputs_are_computed_in_float64() -> None:
    problem = _problem("return x / 3")
    oracle = Oracle(problem)
    inputs = _inputs([1.0, 2.0, 4.0, 5.0, 7.0])
    workload = problem.workloads[0]
    declared, expected = (
        oracle.reference_outputs(workload, inputs),
        oracle.expected(workload, inputs),
    )
    assert declared["y"].dtype is torch.float32
    assert expected["y"].dtype is torch.float64
    assert float(expected["y"][0]) == 1.0 / 3
    assert oracle.observations == []


def test_a_reference_that_writes_to_its_inputs_changes_no_input() -> None:
    problem = _problem("x.mul_(2); i.zero_(); return x")
    inputs = _inputs([1.0, 2.0, 3.0, 4.0, 5.0])
    expected = Oracle(problem).expected(problem.workloads[0], inputs)
    assert expected["y"].tolist() == [2.0, 4.0, 6.0, 8.0, 10.0]
    assert isinstance(inputs["x"], torch.Tensor)
    assert inputs["x"].tolist() == [1.0, 2.0, 3.0, 4.0, 5.0]


def test_a_reference_that_fails_in_float64_is_used_as_declared_and_that_is_observed() -> None:
    problem = _problem("assert x.dtype is torch.float32; return x + 1")
    oracle = Oracle(problem)
    for _ in range(2):
        expected = oracle.expected(problem.workloads[0], _inputs([1.0] * 5))
    assert expected["y"].tolist() == [2.0] * 5
    assert expected["y"].dtype is torch.float64
    assert len(oracle.observations) == 1
    assert oracle.observations[0].startswith("oracle in declared precision, float64 failed")


def test_a_definition_may_ask_for_the_declared_precision() -> None:
    problem = _problem("return x / 3", kernelarc={"oracle": "declared"})
    expected = Oracle(problem).expected(problem.workloads[0], _inputs([1.0] * 5))
    assert float(expected["y"][0]) == float(torch.tensor(1.0) / 3)


@pytest.mark.parametrize("oracle_in", ["float64", "declared"])
def test_no_work_on_a_gpu_is_left_behind_an_answer(
    oracle_in: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[str] = []
    monkeypatch.setattr(torch.cuda, "synchronize", told.append)
    problem = _problem("return x / 3", kernelarc={"oracle": oracle_in})
    oracle = Oracle(problem)
    oracle.answer(problem.workloads[0], _inputs([1.0] * 5))
    assert told == []
    oracle.place = "cuda:1"
    oracle.answer(problem.workloads[0], _inputs([1.0] * 5))
    assert told == ["cuda:1"]


def test_values_that_are_not_finite_are_those_of_the_declared_precision() -> None:
    problem = _problem("return x * 1e30 * 1e20 * 1e-20")
    values = [1e-5, 1.0, -1.0, float("nan"), 0.0]
    expected = Oracle(problem).expected(problem.workloads[0], _inputs(values))["y"].tolist()
    assert expected[1] == float("inf")
    assert expected[2] == float("-inf")
    assert expected[3] != expected[3]
    assert expected[4] == 0.0


def test_integer_outputs_are_those_of_the_declared_precision() -> None:
    outputs = {"y": {"shape": ["n"], "dtype": "int64"}}
    problem = _problem("return ((x + 1e-9) > 1).long()", outputs)
    expected = Oracle(problem).expected(problem.workloads[0], _inputs([1.0, 2.0, 0.0, 3.0, 4.0]))
    assert expected["y"].tolist() == [0, 1, 0, 1, 1]


@pytest.mark.parametrize("returned", ["x, i", "[x, i]", "{'j': i, 'y': x}"])
def test_several_outputs_come_as_tuple_list_or_dict(returned: str) -> None:
    outputs = OUT | {"j": {"shape": ["n"], "dtype": "int64"}}
    problem = _problem(f"return {returned}", outputs)
    made = Oracle(problem).reference_outputs(problem.workloads[0], _inputs([1.0] * 5))
    assert list(made) == ["y", "j"]
    assert made["j"].tolist() == [0, 1, 2, 3, 4]


def test_a_python_scalar_becomes_a_tensor_without_dimensions() -> None:
    outputs = {"y": {"shape": [], "dtype": "float32"}}
    problem = _problem("return float(x.sum())", outputs)
    made = Oracle(problem).reference_outputs(problem.workloads[0], _inputs([1.0] * 5))["y"]
    assert made.shape == ()
    assert made.dtype is torch.float32


def test_another_dtype_than_declared_is_converted_and_observed() -> None:
    problem = _problem("return x.double()")
    oracle = Oracle(problem)
    made = oracle.reference_outputs(problem.workloads[0], _inputs([1.0] * 5))
    assert made["y"].dtype is torch.float32
    assert oracle.observations == ["reference: output y is torch.float64, not torch.float32"]


@pytest.mark.parametrize(
    ("body", "says"),
    [
        ("return x[:2]", r"output y has shape \[2\]; the definition says \[5\]"),
        ("return x, i", "returned 2 outputs; expected 1"),
        ("return {'z': x}", "returned z; expected y"),
        ("return 'x'", "output y is a str; expected a tensor"),
        ("return None", "output y is a NoneType; expected a tensor"),
        ("return x @ i", "raised RuntimeError"),
        ("raise KeyError('k')", "raised KeyError: 'k'"),
        ("return missing", "raised NameError"),
    ],
)
def test_a_reference_that_breaks_its_definition_is_named(body: str, says: str) -> None:
    problem = _problem(body)
    with pytest.raises(OracleError, match=says):
        Oracle(problem).expected(problem.workloads[0], _inputs([1.0] * 5))


def test_a_reference_that_cannot_be_loaded_is_named() -> None:
    problem = _problem("return x\n\nimport no_such_module_anywhere")
    with pytest.raises(OracleError, match="cannot be loaded: ModuleNotFoundError"):
        Oracle(problem)


def test_a_sound_problem_passes_the_check() -> None:
    assert check_problem(_problem("return torch.exp(x)")) == []


def test_the_check_starts_from_the_smallest_workload_that_is_not_empty() -> None:
    problem = _problem("return x", sizes=[7, 0, 3])
    assert [workload.uuid for workload in by_size(problem)] == ["n3", "n7"]
    assert check_problem(problem) == []
    with pytest.raises(ProblemError, match="every output is empty"):
        check_problem(_problem("return x", sizes=[0]))


@pytest.mark.parametrize(
    ("body", "says"),
    [
        ("raise ValueError('no')", "definition.json: reference: raised ValueError: no"),
        ("return x * 1e-9", "accepts outputs that are all zero"),
        ("return torch.softmax(x, 0).sum() + 0 * x", "other inputs never change the outputs"),
        ("return (x + 1000) ** 3 - 1e9", "rejects the reference itself"),
    ],
)
def test_a_problem_that_would_accept_nonsense_is_refused(body: str, says: str) -> None:
    with pytest.raises(ProblemError, match=says):
        check_problem(_problem(body))


def test_one_small_workload_may_be_constant_where_a_larger_one_is_not() -> None:
    assert check_problem(_problem("return torch.softmax(x, 0)", sizes=[1, 6])) == []


def test_inputs_that_cannot_be_drawn_again_are_noted() -> None:
    draw = "return {'x': torch.ones(5), 'i': torch.zeros(5, dtype=torch.int64)}"
    problem = _problem(
        f"return x + 1\n\ndef draw(axes, device):\n    {draw}",
        custom_inputs_entrypoint="draw",
        inputs={"x": {"type": "custom"}, "i": {"type": "custom"}},
    )
    assert check_problem(problem) == [
        "fixed_inputs: no workload gives other inputs for another seed"
    ]
