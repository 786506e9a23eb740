"""Malformed files of every format: one line that names the file, the field and what is expected."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from problem_folders import DEFINITION, WORKLOAD, changed, write_problem

from kernelarc_guard.formats.documents import Documents
from kernelarc_guard.formats.flashinfer import create_set
from kernelarc_guard.formats.traces import read_traces
from kernelarc_guard.formats.trying import run_once
from kernelarc_guard.problem import ProblemError, read_problem
from kernelarc_guard.solution import SolutionError, read_solution

PLAIN = changed(DEFINITION, "axes.half", ...)
SOLUTION: dict[str, Any] = {
    "name": "mine",
    "definition": "scale",
    "author": "me",
    "spec": {"languages": ["python"], "entry_point": "k.py::run", "target_hardware": ["LOCAL"]},
    "sources": [{"path": "k.py", "content": "def run(x, s): return x"}],
}
D, W, S = "definition.json: ", "workload.jsonl:1: ", "solution.json: "


@pytest.mark.parametrize(
    ("path", "value", "says"),
    [
        ("axes", [], D + "axes: Input should be a valid dictionary"),
        ("axes.n", None, D + "axes.n: Input should be a valid dictionary"),
        ("axes.n", {}, D + "axes.n: Unable to extract tag using discriminator 'type'"),
        ("axes.n.type", "vary", D + "axes.n: Input tag 'vary'"),
        ("axes.c.value", 1.5, D + "axes.c.value: Input should be a valid integer"),
        ("axes.c", {"type": "const"}, D + "axes.c.value: Field required"),
        ("axes.half.expression", "half + 1", D + "axes.half.expression: 'half' is no const"),
        ("axes.half.expression", "", D + "axes.half.expression: String should have at least 1"),
        ("inputs", [], D + "inputs: Input should be a valid dictionary"),
        ("inputs.x.shape", "n, c", D + "inputs.x.shape: Input should be a valid list"),
        ("inputs.x.shape", [4], D + "inputs.x.shape.0: Input should be a valid string"),
        ("inputs.x.shape", ["-1"], D + "inputs.x.shape: '-1' is neither an axis nor a number"),
        ("inputs.x", {"shape": ["n"]}, D + "inputs.x.dtype: Field required"),
        ("inputs.x.dtype", "fp32", D + "inputs.x.dtype: 'fp32' is not one of float64, float32"),
        ("outputs.y", None, D + "outputs.y: Input should be a valid dictionary"),
        ("outputs", ..., D + "outputs: Field required"),
        ("reference", None, D + "reference: Input should be a valid string"),
        ("reference", "async def run(x, s): pass", D + "reference: expected a top-level function"),
        ("reference", "run = lambda x, s: x", D + "reference: expected a top-level function run"),
        (
            "reference",
            "def run(x, *, s): pass",
            D + "reference: run takes (x); expected the inputs",
        ),
        (
            "reference",
            "def run(x, s) return x",
            D + "reference: not valid Python: line 1: expected",
        ),
        ("description", 3, D + "description: Input should be a valid string"),
        ("kernelarc.compared_as", "f", D + "kernelarc.compared_as: 'f' is neither sampling nor"),
    ],
)
def test_a_malformed_definition(tmp_path: Path, path: str, value: Any, says: str) -> None:
    base = {**DEFINITION, "kernelarc": {}}
    _refused(lambda: read_problem(write_problem(tmp_path, changed(base, path, value))), says)


@pytest.mark.parametrize(
    ("path", "value", "says"),
    [
        ("uuid", 7, W + "uuid: Input should be a valid string"),
        ("uuid", None, W + "uuid: Input should be a valid string"),
        ("axes", None, W + "axes: Input should be a valid dictionary"),
        ("axes.n", "3", W + "axes.n: Input should be a valid integer"),
        ("axes.n", True, W + "axes.n: Input should be a valid integer"),
        ("axes.n", 2**50, W + "axes.n: Input should be less than or equal to"),
        ("inputs", ["x"], W + "inputs: Input should be a valid dictionary"),
        ("inputs.x", "random", W + "inputs.x: Input should be a valid dictionary"),
        ("inputs.x", {}, W + "inputs.x.type: Field required"),
        ("inputs.x.type", "Random", W + "inputs.x.type: Input should be 'random', 'scalar'"),
        ("inputs.s.value", [1], W + "inputs.s.value.bool: Input should be a valid boolean"),
        ("inputs.x", {"type": "safetensors"}, W + "inputs.x: expected path and tensor_key"),
        ("tolerance", 0.1, W + "tolerance: Input should be a valid dictionary"),
        ("tolerance.max_rtol", "tight", W + "tolerance.max_rtol: Input should be a valid number"),
        ("tolerance.max_error_cap", -1, W + "tolerance.max_error_cap: Input should be greater"),
        ("tolerance.allow_negative_inf", 7, W + "tolerance.allow_negative_inf: Input should be a"),
    ],
)
def test_a_malformed_workload(tmp_path: Path, path: str, value: Any, says: str) -> None:
    lines = [changed(WORKLOAD, path, value)]
    _refused(lambda: read_problem(write_problem(tmp_path, None, lines)), says)


@pytest.mark.parametrize(
    ("name", "content", "says"),
    [
        ("definition.json", b"", "definition.json: line 1: expected JSON: Expecting value"),
        ("definition.json", b"\xff\xfe{\x00", "definition.json: byte 0: expected UTF-8 text"),
        ("definition.json", b"\x1f\x8b\x08\x00", "definition.json: byte 1: expected UTF-8 text"),
        ("definition.json", b"null", "definition.json: expected a JSON object, found NoneType"),
        ("definition.json", b'{"a": 1,}', "definition.json: line 1: expected JSON: "),
        ("workload.jsonl", b"\n \n", "workload.jsonl: expected at least one workload"),
        ("workload.jsonl", b"[1]", "workload.jsonl:1: expected a JSON object, found list"),
        ("workload.jsonl", b'{"uuid": "a"', "workload.jsonl:1: line 1: expected JSON: "),
        ("workload.jsonl", b'{"workload": {}}', "workload.jsonl:1: uuid: Field required"),
        ("workload.jsonl", b'{"uuid": "a\tb"}', "workload.jsonl:1: line 1: expected JSON: Invalid"),
    ],
)
def test_a_file_that_is_no_document(tmp_path: Path, name: str, content: bytes, says: str) -> None:
    (write_problem(tmp_path) / name).write_bytes(content)
    _refused(lambda: read_problem(tmp_path), says)


@pytest.mark.parametrize("name", ["definition.json", "workload.jsonl"])
def test_a_folder_in_the_place_of_a_file(tmp_path: Path, name: str) -> None:
    (write_problem(tmp_path) / name).unlink()
    (tmp_path / name).mkdir()
    _refused(lambda: read_problem(tmp_path), f"{name}: no such file")


@pytest.mark.parametrize(
    ("path", "value", "says"),
    [
        ("name", "", S + "name: String should have at least 1 character"),
        ("definition", ..., S + "definition: Field required"),
        ("spec", [], S + "spec: Input should be a valid dictionary"),
        ("spec.languages", "python", S + "spec.languages: Input should be a valid list"),
        ("spec.languages", ["pytohn"], S + "spec.languages: 'pytohn' is not one of "),
        ("spec.entry_point", "k.py:run", S + "spec.entry_point: 'k.py:run' is not of the form"),
        ("spec.entry_point", "k.cu::run", S + "spec.entry_point: 'k.cu' is no source; expected"),
        ("spec.destination_passing_style", "no way", S + "spec.destination_passing_style: Input"),
        ("spec.compile_options", ["-O3"], S + "spec.compile_options: Input should be"),
        ("spec.dependencies", "torch", S + "spec.dependencies: Input should be a valid list"),
        ("sources", {}, S + "sources: Input should be a valid list"),
        ("sources", ["k.py"], S + "sources.0: Input should be a valid dictionary"),
        ("sources", [{"content": "x"}], S + "sources.0.path: Field required"),
        ("sources", [{"path": "../k.py", "content": "x"}], S + "sources.0.path: '../k.py' is not"),
        ("sources", [{"path": "k.py", "content": 3}], S + "sources.0.content: Input should be"),
    ],
)
def test_a_malformed_solution(tmp_path: Path, path: str, value: Any, says: str) -> None:
    definition = read_problem(write_problem(tmp_path)).definition
    file = tmp_path / "solution.json"
    file.write_text(json.dumps(changed(SOLUTION, path, value)))
    _refused(lambda: read_solution(file, definition, []), says)


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"{", "t.jsonl:1: line 1: expected JSON"),
        (b"\xff", "t.jsonl: byte 0: expected UTF-8 text"),
        (b'{"definition": ""}', "t.jsonl:1: definition: expected the name of a definition"),
        (b'\n{"definition": "d", "workload": []}', "t.jsonl:2: workload: expected an object with"),
    ],
)
def test_a_malformed_trace(tmp_path: Path, content: bytes, says: str) -> None:
    (tmp_path / "t.jsonl").write_bytes(content)
    _refused(lambda: read_traces(tmp_path / "t.jsonl", []), says)


def test_a_malformed_set(tmp_path: Path) -> None:
    made = create_set(tmp_path / "set")
    made.add_problem(Documents(PLAIN, [WORKLOAD]))
    again = tmp_path / "set" / "definitions" / "gemm" / "scale.json"
    again.parent.mkdir()
    again.write_text("{}")
    _refused(lambda: made.file("scale"), "2 definitions are called 'scale'")
    _refused(lambda: read_problem(again), "scale.json: name: Field required")
    lines = tmp_path / "set" / "workloads" / "elementwise" / "scale.jsonl"
    lines.write_text(json.dumps({"definition": "other", "workload": WORKLOAD}))
    again.unlink()
    _refused(lambda: made.problem("scale"), "scale.jsonl:1: definition: 'other'; expected 'scale'")


@pytest.mark.parametrize(
    ("body", "says"),
    [
        ("return x[0]", r"reference: output y has shape [4]; the definition says [4, 4]"),
        ("return x, x", "reference: returned 2 outputs; expected 1"),
        ("return {'z': x}", "reference: returned z; expected y"),
        ("return 'x'", "reference: output y is a str; expected a tensor"),
        ("return x @ x", "reference: raised RuntimeError"),
        ("import nothing_of_that_name", "reference: raised ModuleNotFoundError"),
    ],
)
def test_a_reference_that_does_not_keep_its_definition(
    tmp_path: Path, body: str, says: str
) -> None:
    source = f"def run(x, s):\n    {body}\n"
    line = changed(WORKLOAD, "axes.n", 4) if "@" not in body else changed(WORKLOAD, "axes.n", 3)
    write_problem(tmp_path, changed(DEFINITION, "reference", source), [line])
    _refused(lambda: run_once(read_problem(tmp_path)), "workload w1: " + says)


def _refused(read: Callable[[], Any], says: str) -> None:
    with pytest.raises((ProblemError, SolutionError, ValueError)) as refused:
        read()
    said = str(refused.value)
    assert says in said, said
    assert "\n" not in said and len(said) < 3000
