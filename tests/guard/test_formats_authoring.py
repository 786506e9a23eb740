"""Problems made of functions and of KernelBench-style modules."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from kernelarc_guard.formats.authored import Answer, Request
from kernelarc_guard.formats.authoring import author
from kernelarc_guard.formats.function_problem import from_function
from kernelarc_guard.formats.kernelbench import from_module
from kernelarc_guard.formats.module_source import NotUsable, find, replaced
from kernelarc_guard.formats.shape_algebra import expression_for
from kernelarc_guard.inputs import make_inputs
from kernelarc_guard.oracle import Oracle
from kernelarc_guard.problem import Problem, read_problem
from kernelarc_guard.solution import reference_solution

OPERATORS = '''
import torch


def scaled(x, weight, eps: float = 1e-6, *, power=2):
    """Rows over their size.

    More of it.
    """
    size = x.abs().pow(power).mean(-1, keepdim=True).add(eps)
    return x / size * weight


def pairs(x):
    rows, columns = x.shape
    return {"flat": x.reshape(rows * columns // 2, 2).sum(-1), "rows": rows}


def nothing(x):
    return x * 0


def deaf(x):
    return torch.arange(1, x.shape[0] + 1, dtype=torch.float32)


def noisy(x):
    return x + torch.rand(x.shape)


def odd(x):
    return x[: len(str(x.shape[0]))]


def lookup(table, at):
    return table[at]


def draw_lookup(axes, device):
    rows = axes["rows"]
    table = torch.randn(rows, 8, device=device)
    return {"table": table, "at": torch.randint(0, rows, (axes["count"],), device=device)}
'''
MODULE = """
import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, features, drop):
        super().__init__()
        self.first = nn.Linear(features, 2 * features)
        self.norm = nn.LayerNorm(2 * features)
        self.drop = nn.Dropout(drop)
        self.register_buffer("mask", torch.tril(torch.ones(features, features)))

    def forward(self, x, scale):
        return self.drop(self.norm(self.first(x @ self.mask))) * scale, x.shape[0]


features = 512; drop = 0.0
batch = 64


def get_inputs():
    return [torch.rand(batch, features), 0.5]


def get_init_inputs():
    return [features, drop]
"""


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """Return a folder with code to make problems of."""
    (tmp_path / "operators.py").write_text(OPERATORS)
    (tmp_path / "module.py").write_text(MODULE)
    return tmp_path


def _request(place: Path, source: str, **more: Any) -> Request:
    return Request(source=source, folder=str(place / "made"), place=str(place), **more)


def _written(place: Path, source: str, **more: Any) -> tuple[Answer, Problem | None]:
    answer = author(_request(place, source, **more))
    return answer, None if answer.error else read_problem(place / "made")


def test_a_function_becomes_a_problem_that_can_be_graded(place: Path) -> None:
    answer, problem = _written(
        place,
        "operators.py:scaled",
        shapes={"x": ["rows", "64"], "weight": ["64"]},
        scalars={"eps": 1e-5},
        constants={"power": 3},
        axes=[{"rows": 3}, {"rows": 8}],
        op_type="normalization",
    )
    assert answer == Answer(name="scaled") and problem is not None
    definition = problem.definition
    assert definition.description == "Rows over their size."
    assert (definition.op_type, list(definition.inputs)) == (
        "normalization",
        ["x", "weight", "eps"],
    )
    assert definition.outputs["output"].shape == ["rows", "64"]
    assert definition.reference.endswith(
        "def run(x, weight, eps):\n    return scaled(x, weight, eps, power=3)\n"
    )
    assert [one.uuid for one in problem.workloads] == ["rows3", "rows8"]
    assert problem.workloads[0].inputs["eps"].value == 1e-5
    assert problem.warnings == []
    tolerance = problem.workloads[0].tolerance
    assert tolerance.max_rtol == 1e-4 and 1e-5 < tolerance.max_atol < 1e-3
    assert reference_solution(definition).sources[0].content == definition.reference
    assert "exists; expected a new folder" in author(_request(place, "operators.py:scaled")).error


@pytest.mark.parametrize(
    ("source", "more", "says"),
    [
        ("operators.py:nothing", {}, "accepts outputs that are all zero"),
        ("operators.py:deaf", {}, "other inputs never change the outputs"),
        ("operators.py:noisy", {}, "output output is another each time for the same inputs"),
        ("operators.py:pairs", {"max_atol": 1e9}, "all zero on every workload"),
    ],
)
def test_what_cannot_be_graded_leaves_no_folder(
    place: Path, source: str, more: dict[str, Any], says: str
) -> None:
    answer = author(_request(place, source, shapes={"x": ["4", "6"]}, **more))
    assert says in answer.error
    assert sorted(one.name for one in place.iterdir() if one.name[0] != "_") == [
        "module.py",
        "operators.py",
    ]


def _documents(place: Path, source: str, **more: Any) -> Any:
    request = _request(place, source, **more)
    return from_function(find(source, place), request, [])


def test_lengths_of_outputs_are_found_as_expressions_of_the_axes(place: Path) -> None:
    made = _documents(
        place, "operators.py:pairs", shapes={"x": ["b", "c"]}, axes=[{"b": 4, "c": 6}]
    ).definition
    assert made["axes"]["flat_0"] == {"type": "expr", "expression": "b * c // 2"}
    assert made["outputs"] == {
        "flat": {"shape": ["flat_0"], "dtype": "float32"},
        "rows": {"shape": None, "dtype": "int64"},
    }


@pytest.mark.parametrize(
    ("function", "expression"),
    [
        (lambda n, m: 7, "7"),
        (lambda n, m: m, "m"),
        (lambda n, m: n * m, "n * m"),
        (lambda n, m: n * n, "n * n"),
        (lambda n, m: n + m, "n + m"),
        (lambda n, m: n - 2, "n - 2"),
        (lambda n, m: 3 * m, "m * 3"),
        (lambda n, m: n // 4, "n // 4"),
        (lambda n, m: -(-n // 4), "(n + 3) // 4"),
        (lambda n, m: n * m * 2, "n * m * 2"),
        (lambda n, m: n % 3, None),
    ],
)
def test_the_simplest_expression_is_found(
    function: Callable[[int, int], int], expression: str | None
) -> None:
    lengths = [(16, 5), (17, 5), (16, 6), (33, 9)]
    assert expression_for([({"n": n, "m": m}, function(n, m)) for n, m in lengths]) == expression


def test_of_one_example_an_axis_says_more_than_a_number() -> None:
    assert expression_for([({"n": 4}, 4)]) == "n"
    assert expression_for([({"n": 4}, 9)]) == "9"
    assert expression_for([({}, 9)]) == "9"


@pytest.mark.parametrize(
    ("source", "more", "says"),
    [
        ("operators.py", {}, "expected operators.py:FUNCTION, or a module with Model, get_inputs"),
        ("operators.py:gone", {}, "operators.py has no 'gone'; its functions are "),
        ("operators.py:OPERATORS = 3", {}, "'OPERATORS = 3' is not the name of a function"),
        ("gone.py:f", {}, "gone.py: no such file"),
        ("no_such_module:f", {}, "module 'no_such_module' cannot be imported"),
        ("operators.py:scaled", {}, "`--shape x=ROWS,1024`"),
        (
            "operators.py:pairs",
            {"shapes": {"y": ["4"]}},
            "'y' is no parameter; expected x",
        ),
        ("operators.py:pairs", {"shapes": {"x": ["n", "4"]}}, "--axes: expected lengths of n"),
        (
            "operators.py:pairs",
            {"shapes": {"x": ["n", "4"]}, "axes": [{"n": 4}, {"m": 4}]},
            "--axes: n is missing in one",
        ),
        (
            "operators.py:pairs",
            {"shapes": {"x": ["2", "4"]}, "axes": [{"m": 4}]},
            "--axes: no shape has 'm'",
        ),
        (
            "operators.py:pairs",
            {"shapes": {"x": ["2", "4"]}, "dtypes": {"x": "float31"}},
            "--dtype x: 'float31'; expected one of float64",
        ),
        (
            "operators.py:pairs",
            {"shapes": {"x": ["2", "4"]}, "dtypes": {"y": "float32"}},
            "--dtype y: is no tensor",
        ),
        ("operators.py:pairs", {"shapes": {"x": ["8"]}}, "the function raised ValueError"),
        (
            "operators.py:odd",
            {"shapes": {"x": ["n"]}, "axes": [{"n": 9}, {"n": 99}, {"n": 999}]},
            "output output: no expression of the axes gives the length of dimension 0 (1 with",
        ),
        ("operators.py:pairs", {"settings": {"a": 1}}, "--set and --eval are for modules with"),
        (
            "operators.py:pairs",
            {"shapes": {"x": ["2", "4"]}, "draw": "gone"},
            "--draw: the file has no function 'gone'",
        ),
        ("module.py", {"shapes": {"x": ["4"]}}, "--shape: the module states it"),
        ("module.py", {"settings": {"heads": 4}}, "--set heads: is no constant of the module"),
    ],
)
def test_what_is_missing_or_wrong_is_one_line(
    place: Path, source: str, more: dict[str, Any], says: str
) -> None:
    answer = author(_request(place, source, **more))
    assert says in answer.error and "\n" not in answer.error, answer.error
    assert not (place / "made").exists()


def test_an_installed_function_is_imported_and_a_file_is_copied(place: Path) -> None:
    made = _documents(
        place,
        "torch.nn.functional:softmax",
        shapes={"input": ["n", "8"]},
        constants={"dim": -1},
        axes=[{"n": 3}],
    ).definition
    assert made["reference"].startswith("import torch.nn.functional\n")
    assert "torch.nn.functional.softmax(input, dim=-1)" in made["reference"]
    # Of torch's own functions most do not tell their parameters.
    made = _documents(
        place, "torch:matmul", shapes={"a": ["4", "n"], "b": ["n", "5"]}, axes=[{"n": 3}]
    )
    assert made.definition["outputs"]["output"]["shape"] == ["4", "5"]


def test_a_file_that_cannot_stand_alone_is_refused(place: Path) -> None:
    (place / "inside.py").write_text("from . import other\ndef f(x): return x\n")
    with pytest.raises(NotUsable, match="imports|raised"):
        find("inside.py:f", place)
    (place / "running.py").write_text("def run(a): return a\ndef f(x): return run(x)\n")
    with pytest.raises(NotUsable, match="has a function run of its own"):
        _documents(place, "running.py:f", shapes={"x": ["4"]})
    made = _documents(place, "running.py:run", shapes={"a": ["4"]}).definition
    assert made["reference"] == (place / "running.py").read_text()


def test_a_function_of_the_file_may_make_the_inputs(place: Path) -> None:
    answer, problem = _written(
        place,
        "operators.py:lookup",
        shapes={"table": ["rows", "8"], "at": ["count"]},
        dtypes={"at": "int64"},
        axes=[{"rows": 5, "count": 7}],
        draw="draw_lookup",
    )
    # The function was tried on integers that are no places of the table.
    assert answer.error == "" and problem is not None, answer
    assert problem.definition.custom_inputs_entrypoint == "draw_lookup"
    assert {one.type for one in problem.workloads[0].inputs.values()} == {"custom"}


def test_a_kernelbench_module_becomes_a_problem_with_its_parameters_as_inputs(place: Path) -> None:
    answer, problem = _written(
        place, "module.py", settings={"features": 16, "batch": 4}, name="linear"
    )
    assert answer.error == "" and problem is not None, answer
    definition = problem.definition
    parameters = ["first_weight", "first_bias", "norm_weight", "norm_bias"]
    assert list(definition.inputs) == ["x", "scale", *parameters]
    assert definition.inputs["first_weight"].shape == ["32", "16"]
    assert definition.inputs["scale"].shape is None
    assert definition.kernelarc.static_inputs == parameters
    assert definition.outputs["output_0"].shape == ["4", "32"]
    assert definition.outputs["output_1"].shape is None
    inputs = make_inputs(definition, problem.workloads[0], 3)
    outputs = Oracle(problem).reference_outputs(problem.workloads[0], inputs)
    x, weight = inputs["x"], inputs["first_weight"]
    assert isinstance(x, torch.Tensor) and isinstance(weight, torch.Tensor)
    norm = inputs["norm_weight"]
    assert isinstance(norm, torch.Tensor) and norm.std() > 0  # else one could leave it out
    assert outputs["output_0"].shape == (4, 32)


def test_dropout_is_found_and_can_be_switched_off(place: Path) -> None:
    settings = {"features": 16, "batch": 4, "drop": 0.5}
    answer = author(_request(place, "module.py", settings=settings))
    assert "is another each time" in answer.error and "--eval" in answer.error
    made = from_module(
        find("module.py", place),
        _request(place, "module.py", settings=settings, evaluating=True),
        [],
    )
    assert ".to(device).eval()" in made.definition["reference"]


@pytest.mark.parametrize(
    ("body", "says"),
    [
        ("def get_inputs(): return [[1]]", "get_inputs: returned a list; expected tensors"),
        ("def get_inputs(): return 1 / 0", "raised ZeroDivisionError"),
        ("def get_inputs(): return [torch.ones(3, 3)]", "Model: forward raised TypeError"),
        ("def run(): pass", "the module has a function run of its own"),
        ("class Model: pass", "raised TypeError"),
    ],
)
def test_a_module_that_is_no_problem_is_one_line(place: Path, body: str, says: str) -> None:
    (place / "module.py").write_text(f"{MODULE}\n\n{body}\n")
    answer = author(_request(place, "module.py", settings={"features": 16, "batch": 4}))
    assert says in answer.error and "\n" not in answer.error, answer.error


def test_constants_are_replaced_where_they_are_assigned() -> None:
    text = "a = 1; b = -2  # é\nc = 'x'\n\ndef f(a=3):\n    a = 4\n"
    assert replaced(text, {"a": 10, "b": 2.5}) == text.replace("a = 1;", "a = 10;").replace(
        "-2", "2.5"
    )
    assert replaced("shape = (4, 5)\n", {"shape": [2]}) == "shape = [2]\n"
    paged = "a = 1\n\f\nb = '\u2028'\r\nc = 3\r\n"
    assert replaced(paged, {"c": 4}) == paged.replace("c = 3", "c = 4")
    several = "depth, height, width = 16, 64, 64\nrows: int = 2\nn = 2 ** 10 * 3\n"
    told = {"depth": 4, "width": 8, "rows": 1, "n": 6}
    assert replaced(several, told) == "depth, height, width = 4, 64, 8\nrows: int = 1\nn = 6\n"
    with pytest.raises(NotUsable, match="--set d: is no constant of the module; expected one of a"):
        replaced(text, {"d": 1})
