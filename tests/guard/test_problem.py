"""Problem folders: what is read, what is refused and how that is said."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from problem_folders import DEFINITION, WORKLOAD, changed, write_problem

from kernelarc_guard.axes import MAX_EXTENT, evaluate
from kernelarc_guard.problem import Problem, ProblemError, read_problem


def test_a_small_problem_is_read_with_its_order_and_defaults(tmp_path: Path) -> None:
    problem = read_problem(write_problem(tmp_path / "p"))
    definition = problem.definition
    assert list(definition.inputs) == ["x", "s"]
    assert definition.resolve({"n": 3}) == {"n": 3, "c": 4, "half": 6}
    assert definition.input_shape("x", definition.resolve({"n": 3})) == (3, 4)
    assert definition.input_shape("s", definition.resolve({"n": 3})) is None
    assert definition.operator_class == "elementwise"
    assert definition.kernelarc.tolerance == "strict"
    assert problem.warnings == []
    assert problem.weights() == [1.0]


def test_digits_in_a_shape_are_lengths(tmp_path: Path) -> None:
    definition = changed(DEFINITION, "outputs.y.shape", ["n", "8"])
    read = read_problem(write_problem(tmp_path, definition)).definition
    assert read.output_shape("y", {"n": 3}) == (3, 8)


def test_a_problem_survives_the_wire_with_its_digest(tmp_path: Path) -> None:
    problem = read_problem(write_problem(tmp_path))
    again = Problem.model_validate_json(problem.model_dump_json())
    assert again == problem
    assert again.digest == problem.digest


def test_the_digest_moves_with_the_workloads_and_not_with_the_folder(tmp_path: Path) -> None:
    first = read_problem(write_problem(tmp_path / "a"))
    second = read_problem(write_problem(tmp_path / "b"))
    third = read_problem(write_problem(tmp_path / "c", workloads=[changed(WORKLOAD, "axes.n", 4)]))
    assert first.digest == second.digest != third.digest


def test_the_digest_moves_with_the_order_of_the_outputs(tmp_path: Path) -> None:
    spec = DEFINITION["outputs"]["y"]
    folders = [
        write_problem(tmp_path / str(i), changed(DEFINITION, "outputs", outputs))
        for i, outputs in enumerate(({"y": spec, "z": spec}, {"z": spec, "y": spec}))
    ]
    assert read_problem(folders[0]).digest != read_problem(folders[1]).digest


def test_unknown_keys_are_ignored_and_named(tmp_path: Path) -> None:
    definition = changed(DEFINITION, "labels", ["a"])
    definition["tags"] = ["a format knows them"]
    definition["inputs"]["x"]["layout"] = "row"
    definition["kernelarc"] = {"thread": 2}
    workload = changed(WORKLOAD, "tolerance.required_match_ratio", 0.98)
    problem = read_problem(write_problem(tmp_path, definition, [workload]))
    assert problem.warnings == [
        "definition.json: labels: unknown key, ignored",
        "definition.json: inputs.x.layout: unknown key, ignored",
        "definition.json: kernelarc.thread: unknown key, ignored",
        "workload.jsonl:1: tolerance.required_match_ratio: unknown key, ignored",
    ]


def test_weights_are_shares_in_the_order_of_the_workloads(tmp_path: Path) -> None:
    definition = changed(DEFINITION, "kernelarc", {"weights": {"b": 3, "a": 1, "gone": 9}})
    workloads = [changed(WORKLOAD, "uuid", name) for name in "abc"]
    problem = read_problem(write_problem(tmp_path, definition, workloads))
    assert problem.weights() == [0.25, 0.75, 0.0]
    assert problem.warnings == [
        "definition.json: kernelarc.weights: 'gone' is no workload of workload.jsonl, ignored"
    ]


def test_the_line_of_a_flashinfer_trace_is_a_workload(tmp_path: Path) -> None:
    line = {"definition": "scale", "workload": WORKLOAD, "solution": None, "evaluation": None}
    problem = read_problem(write_problem(tmp_path, workloads=[line]))
    assert problem.workloads[0].uuid == "w1"
    assert problem.warnings == []


def test_another_workload_file_of_the_folder_can_be_read(tmp_path: Path) -> None:
    folder = write_problem(tmp_path)
    (folder / "workload.gpu.jsonl").write_text(json.dumps(changed(WORKLOAD, "uuid", "gpu")))
    assert read_problem(folder, "workload.gpu.jsonl").workloads[0].uuid == "gpu"


_BAD_DEFINITIONS: list[tuple[str, Any, str]] = [
    ("name", "", "definition.json: name: "),
    ("name", ..., "definition.json: name: Field required"),
    ("axes.n.type", "variable", "definition.json: axes.n: "),
    ("axes.c.value", -1, "definition.json: axes.c.value: "),
    ("axes.c.value", True, "definition.json: axes.c.value: "),
    ("axes.c.value", "4", "definition.json: axes.c.value: "),
    ("axes.half.expression", "n * missing", "axes.half.expression: 'missing' is no const"),
    ("axes.half.expression", "n.bit_length()", "axes.half.expression: 'n.bit_length()' uses Call"),
    ("axes.half.expression", "n *", "axes.half.expression: 'n *' is not an arithmetic"),
    ("axes.half.expression", "__import__('os')", "axes.half.expression: "),
    ("inputs.x.shape", ["m", "c"], "inputs.x.shape: 'm' is neither an axis nor a number"),
    ("inputs.x.dtype", "float31", "definition.json: inputs.x.dtype: 'float31' is not one of"),
    ("inputs.x", "float32", "definition.json: inputs.x: "),
    ("inputs", {}, "definition.json: inputs: "),
    ("outputs", {"x": {"shape": [], "dtype": "bool"}}, "outputs.x: is an input too"),
    ("inputs.n", {"shape": None, "dtype": "int64"}, "inputs.n: is an axis too"),
    ("reference", "def run(x, s:\n", "reference: not valid Python: line 1"),
    ("reference", "def go(x, s): return x", "reference: expected a top-level function run"),
    ("reference", "def run(s, x): return x", "reference: run takes (s, x); expected the inputs"),
    ("reference", "def run(x): return x", "reference: run takes (x); expected the inputs"),
    ("reference", "def run(x, s, *more): return x", "reference: run takes more than the inputs"),
    ("reference", "x = '\0'", "reference: not valid Python"),
    ("custom_inputs_entrypoint", "draw", "custom_inputs_entrypoint: 'draw' is no top-level"),
    ("kernelarc", {"mutable_inputs": ["z"]}, "kernelarc.mutable_inputs: 'z' is not an input"),
    ("kernelarc", {"tolerance": "lax"}, "definition.json: kernelarc.tolerance: "),
    ("kernelarc", {"threads": 0}, "definition.json: kernelarc.threads: "),
    ("kernelarc", {"weights": {"w1": 0}}, "definition.json: kernelarc.weights: "),
    ("kernelarc", {"weights": {"w9": 1}}, "kernelarc.weights: expected a weight above 0"),
]


@pytest.mark.parametrize(("path", "value", "says"), _BAD_DEFINITIONS)
def test_a_bad_definition_is_refused_in_one_line(
    tmp_path: Path, path: str, value: Any, says: str
) -> None:
    write_problem(tmp_path, changed(DEFINITION, path, value))
    _refused(tmp_path, says)


_BAD_WORKLOADS: list[tuple[str, Any, str]] = [
    ("uuid", ..., "workload.jsonl:1: uuid: Field required"),
    ("uuid", "a b", "workload.jsonl:1: uuid: 'a b'"),
    ("axes", {}, "workload.jsonl:1: axes.n: missing"),
    ("axes.m", 3, "workload.jsonl:1: axes.m: expected only n"),
    ("axes.c", 3, "workload.jsonl:1: axes.c: expected only n"),
    ("axes.n", -3, "workload.jsonl:1: axes.n: "),
    ("axes.n", 2.5, "workload.jsonl:1: axes.n: "),
    ("axes.n", 10**30, "workload.jsonl:1: axes.n: "),
    ("inputs.z", {"type": "random"}, "workload.jsonl:1: inputs.z: no such input"),
    ("inputs.x.type", "ones", "workload.jsonl:1: inputs.x.type: "),
    ("inputs.x", {"type": "scalar", "value": 1}, "workload.jsonl:1: inputs.x: is scalar"),
    ("inputs.s", {"type": "scalar"}, "workload.jsonl:1: inputs.s: expected a value"),
    ("inputs.s", {"type": "scalar", "value": "1"}, "workload.jsonl:1: inputs.s.value"),
    ("inputs.x", {"type": "custom"}, "workload.jsonl:1: inputs.s: expected custom"),
    (
        "inputs",
        {"x": {"type": "custom"}, "s": {"type": "custom"}},
        "workload.jsonl:1: inputs.x: is custom, but the definition has no",
    ),
    (
        "inputs.x",
        {"type": "safetensors", "path": "../../secret", "tensor_key": "x"},
        "workload.jsonl:1: inputs.x: path '../../secret' must be one of a file and stay in the",
    ),
    ("inputs.x", {"type": "safetensors", "path": "/", "tensor_key": "x"}, "path '/' must be one"),
    ("inputs.x", {"type": "safetensors", "path": "a"}, "inputs.x: expected path and tensor_key"),
    ("tolerance.max_atol", -1, "workload.jsonl:1: tolerance.max_atol: "),
    ("tolerance.required_matched_ratio", 1.5, "tolerance.required_matched_ratio: "),
]


@pytest.mark.parametrize(("path", "value", "says"), _BAD_WORKLOADS)
def test_a_bad_workload_is_refused_in_one_line(
    tmp_path: Path, path: str, value: Any, says: str
) -> None:
    write_problem(tmp_path, workloads=[changed(WORKLOAD, path, value)])
    _refused(tmp_path, says)


_BAD_FILES: list[tuple[str, bytes, str]] = [
    ("definition.json", b"{", "definition.json: line 1: expected JSON"),
    ("definition.json", b"[]", "definition.json: expected a JSON object, found list"),
    ("definition.json", b'{"name": "\xff"}', "definition.json: byte 10: expected UTF-8 text"),
    ("definition.json", b'{"name": "a", "name": "b"}', "key 'name' occurs twice"),
    ("definition.json", b"[" * 100_000, "definition.json: expected JSON"),
    ("workload.jsonl", b"", "workload.jsonl: expected at least one workload"),
    ("workload.jsonl", b'\n{"uuid": NaN}', "workload.jsonl:2: expected JSON: NaN is not JSON"),
    ("workload.jsonl", b'{"uuid": 1} {"uuid": 2}', "workload.jsonl:1: line 1: expected JSON"),
]


@pytest.mark.parametrize(("name", "content", "says"), _BAD_FILES)
def test_a_file_that_is_no_json_is_refused_in_one_line(
    tmp_path: Path, name: str, content: bytes, says: str
) -> None:
    (write_problem(tmp_path) / name).write_bytes(content)
    _refused(tmp_path, says)


def test_a_missing_folder_or_file_is_named(tmp_path: Path) -> None:
    _refused(tmp_path / "gone", "gone: expected a folder")
    _refused(tmp_path, f"{tmp_path}/definition.json: no such file")


def test_the_second_use_of_a_uuid_names_both_lines(tmp_path: Path) -> None:
    write_problem(tmp_path, workloads=[WORKLOAD, WORKLOAD])
    _refused(tmp_path, "workload.jsonl:2: uuid: 'w1' occurs in line 1 already")


def test_the_workload_file_must_be_in_the_folder(tmp_path: Path) -> None:
    write_problem(tmp_path / "a")
    write_problem(tmp_path / "b")
    with pytest.raises(ProblemError, match="inside the problem folder"):
        read_problem(tmp_path / "a", "../b/workload.jsonl")


def test_a_request_with_a_workload_that_does_not_fit_is_refused(tmp_path: Path) -> None:
    problem = read_problem(write_problem(tmp_path))
    wire = json.loads(problem.model_dump_json())
    wire["workloads"][0]["axes"] = {"m": 3}
    with pytest.raises(ValueError, match="workload w1: axes.n: missing"):
        Problem.model_validate(wire)


def _refused(folder: Path, says: str) -> None:
    with pytest.raises(ProblemError) as caught:
        read_problem(folder)
    assert says in str(caught.value)
    assert "\n" not in str(caught.value)


@given(a=st.integers(0, 1000), b=st.integers(1, 1000))
def test_expressions_are_python_arithmetic(a: int, b: int) -> None:
    axes = {"a": a, "b": b}
    assert evaluate("(a + b) * 2 - a % b", axes) == (a + b) * 2 - a % b
    assert evaluate("-(-a // b)", axes) == -(-a // b)
    assert evaluate("a * b / b", axes) == a
    assert evaluate("+b ** 2", axes) == b**2


@pytest.mark.parametrize(
    "expression",
    [
        "a / 2",
        "a - 9",
        "a // 0",
        "9 ** 9 ** 9",
        "2 ** 65",
        "1e999",
        f"a * {MAX_EXTENT}",
        "(-1) ** .5",
    ],
)
def test_an_expression_without_a_length_is_refused(expression: str) -> None:
    with pytest.raises(ValueError, match="\\*|/|-|1e999"):
        evaluate(expression, {"a": 3})


@pytest.mark.parametrize(
    "expression", ["a if a else 1", "[a]", "a < 1", "True", "'a'", "a & 1", "lambda: 1", "(" * 300]
)
def test_an_expression_that_is_no_arithmetic_is_refused(expression: str) -> None:
    with pytest.raises(ValueError, match="uses|not an arithmetic"):
        evaluate(expression, {"a": 3})


def test_reading_problems_and_solutions_imports_no_torch() -> None:
    code = (
        "import sys, kernelarc_guard.problem, kernelarc_guard.solution, "
        "kernelarc_guard.fingerprint, kernelarc_guard.formats.flashinfer, "
        "kernelarc_guard.formats.results, kernelarc_guard.formats.authored; "
        "sys.exit(bool({'torch', 'numpy', 'scipy'} & set(sys.modules)))"
    )
    guard = Path(__file__).resolve().parents[2] / "guard"
    done = subprocess.run([sys.executable, "-c", code], cwd=guard, check=False)
    assert done.returncode == 0
