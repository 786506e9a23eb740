"""The page about formats names every field the readers know, and its example works."""

import re
from pathlib import Path

import pytest

from kernelarc_guard.check_problem import check_problem
from kernelarc_guard.compile_flags import DEFAULT
from kernelarc_guard.definition import DTYPES, KINDS, Definition, KernelArcKeys, TopK
from kernelarc_guard.formats.results import STATUSES
from kernelarc_guard.model import Model
from kernelarc_guard.problem import MAX_WORKLOADS, read_problem
from kernelarc_guard.solution import read_solution
from kernelarc_guard.solution_model import CompileOptions, Solution, Spec
from kernelarc_guard.workload import InputSpec, Tolerance, Workload

PAGE = (Path(__file__).parents[2] / "docs" / "problems.md").read_text()


@pytest.mark.parametrize(
    "model",
    [
        Definition,
        KernelArcKeys,
        TopK,
        Workload,
        InputSpec,
        Tolerance,
        Solution,
        Spec,
        CompileOptions,
    ],
)
def test_every_field_is_named(model: type[Model]) -> None:
    missing = [n for n in model.model_fields if not re.search(rf"[`\"](?:spec\.)?{n}\b", PAGE)]
    assert missing == []


def test_every_choice_and_default_is_named() -> None:
    for word in (*DTYPES, *KINDS, "random", "scalar", "safetensors", "custom"):
        assert f"`{word}`" in PAGE
    for name, field in Tolerance.model_fields.items():
        if isinstance(field.default, float):
            assert f"| `{name}` | {field.default} |" in PAGE
    assert f"`{' '.join(DEFAULT)}`" in PAGE
    assert f"At most {MAX_WORKLOADS} workloads" in PAGE


def test_every_status_of_a_trace_is_explained() -> None:
    table = PAGE[PAGE.index("| status | reasons |") :]
    for status in {*STATUSES.values(), "PASSED"}:
        assert f"`{status}`" in table
    for reason, status in STATUSES.items():
        assert f"`{reason}`" in table or status == "REWARD_HACK", reason


def test_the_example_works(tmp_path: Path) -> None:
    blocks = re.findall(r"^`([\w.]+)`\n\n```jsonl?\n(.*?)```", PAGE, re.DOTALL | re.MULTILINE)
    for name, text in blocks:
        (tmp_path / name).write_text(text)
    assert [name for name, _ in blocks] == ["definition.json", "workload.jsonl", "solution.json"]
    problem = read_problem(tmp_path)
    assert problem.warnings == [] and check_problem(problem) == []
    solution = read_solution(tmp_path / "solution.json", problem.definition)
    assert solution.entry_function == "run"
