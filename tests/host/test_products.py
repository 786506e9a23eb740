"""Which problems are one matrix product, and that an autotuned cuBLASLt is asked for that product.

nvmath-python needs a GPU: here something else multiplies what it is given (tests/gpu has the real one).
"""

import sys
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
import torch
from product_definitions import PRODUCTS, define

from kernelarc_guard.definition import Definition
from kernelarc_guard.policy import examine
from kernelarc_guard.problem import read_problem
from kernelarc_mcp.data import data_dir
from kernelarc_mcp.host.products import ALGORITHMS, CLASSES, tuned_product

SIZES = {"b": 2, "s": 3, "m": 5, "n": 7, "k": 11}
NO_PRODUCTS = (
    "nn nn nn",
    "mk km mm",
    "mk mk mm",
    "mk kn mk",
    "mn mn mn",
    "mk k m",
    "mk kn m",
    "bmk kn mn",
    "bmk bmn bmn",
    "bmb bkn bmn",
    "bsk bn bsn",
)


class Multiplier:
    """Takes the place of `nvmath.linalg.advanced.Matmul`."""

    calls: list[str]

    def __init__(
        self, a: torch.Tensor, b: torch.Tensor, /, c: torch.Tensor, *, beta: float, options: Any
    ) -> None:
        assert beta == 0.0 and options["inplace"] and c.mT.is_contiguous()
        self.calls.append("made")
        self.operands = a, b, c

    def plan(self, *, preferences: Any) -> None:
        assert preferences["limit"] == ALGORITHMS

    def autotune(self, iterations: int) -> None:
        self.calls.append("tuned")

    def reset_operands(self, *, a: torch.Tensor, b: torch.Tensor, c: torch.Tensor) -> None:
        self.operands = a, b, c

    def execute(self) -> None:
        self.calls.append("run")
        a, b, c = self.operands
        c.copy_(a @ b)


def load(source: str, monkeypatch: pytest.MonkeyPatch) -> tuple[Any, list[str]]:
    """Return a program's `run` and what it asks the library for, from now on."""
    calls: list[str] = []
    library: Any = ModuleType("nvmath.linalg.advanced")
    library.Matmul = type("Matmul", (Multiplier,), {"calls": calls})
    library.MatmulReductionScheme = SimpleNamespace(COMPUTE_TYPE=2)
    core: Any = ModuleType("cuda.core")
    core.system = SimpleNamespace()
    for module in (*map(ModuleType, ("nvmath", "nvmath.linalg", "cuda")), library, core):
        monkeypatch.setitem(sys.modules, module.__name__, module)
    names: dict[str, Any] = {}
    exec(source, names)
    return names["run"], calls


@pytest.mark.parametrize("axes", PRODUCTS)
def test_the_product_that_the_axes_declare_is_asked_for(
    monkeypatch: pytest.MonkeyPatch, axes: str
) -> None:
    definition = define(axes)
    solution = tuned_product(definition, "tuned")
    assert solution is not None
    assert examine(solution, definition).findings == []
    run, calls = load(solution.sources[0].content, monkeypatch)
    reference: dict[str, Any] = {}
    exec(definition.reference, reference)
    for _ in range(2):
        x, y, z = (torch.randn([SIZES[axis] for axis in shape]) for shape in axes.split())
        run(x, y, z.fill_(torch.nan))
        torch.testing.assert_close(z, reference["run"](x, y))
    assert calls == ["made", "tuned", "run", "run"]


def test_each_shape_is_tuned_once(monkeypatch: pytest.MonkeyPatch) -> None:
    solution = tuned_product(define("mk kn mn"), "tuned")
    assert solution is not None
    run, calls = load(solution.sources[0].content, monkeypatch)
    for rows in (2, 3, 2, 3):
        run(torch.ones(rows, 4), torch.ones(4, 5), torch.empty(rows, 5))
    assert calls.count("tuned") == 2 and calls.count("run") == 4


@pytest.mark.parametrize("axes", NO_PRODUCTS)
def test_axes_that_leave_the_product_open_give_none(axes: str) -> None:
    assert tuned_product(define(axes), "tuned") is None


@pytest.mark.parametrize(
    "dtypes",
    ["float64 float64 float64", "bfloat16 bfloat16 float32", "bfloat16 float16 bfloat16"],
)
def test_other_number_formats_give_none(dtypes: str) -> None:
    assert tuned_product(define("mk kn mn", dtypes), "tuned") is None


def test_a_written_input_or_one_more_gives_none() -> None:
    written = define("mk kn mn", kernelarc={"mutable_inputs": ["x"]})
    assert tuned_product(written, "tuned") is None
    third = define("mk kn mn").model_dump()
    third["inputs"]["bias"] = {"shape": ["n"], "dtype": "float32"}
    third["reference"] = "def run(x, y, bias):\n    return x @ y + bias\n"
    assert tuned_product(Definition.model_validate(third), "tuned") is None


def test_of_the_library_the_plain_product_is_recognised_alone() -> None:
    folders = sorted(data_dir("kernels").glob("*/definition.json"))
    definitions = [read_problem(path.parent).definition for path in folders]
    found = [
        one.name
        for one in definitions
        if one.operator_class in CLASSES and tuned_product(one, "tuned") is not None
    ]
    assert len(definitions) > 15 and found == ["gemm_bf16"]
