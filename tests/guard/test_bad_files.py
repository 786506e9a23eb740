"""What readers once choked on, or took: each kind that fuzzing found, by name."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from guard_process import Guard
from problem_folders import DEFINITION, WORKLOAD, changed, write_problem

from kernelarc_guard.axes import evaluate
from kernelarc_guard.compile_flags import FlagRefused, compiler_flags
from kernelarc_guard.definition import Definition
from kernelarc_guard.problem import ProblemError, read_problem
from kernelarc_guard.protocol import Refusal
from kernelarc_guard.solution import SolutionError, make_solution, read_solution
from kernelarc_guard.tensorfile import find_file, load_tensor
from kernelarc_guard.textfile import parse_object

DEF = Definition.model_validate(DEFINITION)
SOLUTION: dict[str, Any] = {
    "name": "first",
    "definition": "scale",
    "spec": {"languages": ["python"], "entry_point": "k.py::run"},
    "sources": [{"path": "k.py", "content": "def run(x, s): return x"}],
}


@pytest.mark.parametrize(
    ("path", "value", "says"),
    [
        ("axes.n.type", [], "axes.n"),
        ("outputs.y.shape", ["9" * 5000], "outputs.y.shape"),
        ("outputs.y.shape", [str(2**60)], "outputs.y.shape"),
        ("inputs.x.shape", ["1"] * 9, "at most 8"),
        ("inputs.s.dtype", "float4_e2m1", "inputs.s.shape"),
        ("outputs", {f"y{i}": DEFINITION["outputs"]["y"] for i in range(33)}, "at most 32"),
        ("name", "\ud800", "half of a character"),
        ("op_type", "x\ud800", "half of a character"),
    ],
)
def test_a_definition_that_cannot_be_judged_is_refused(
    tmp_path: Path, path: str, value: Any, says: str
) -> None:
    with pytest.raises(ProblemError, match=says) as refused:
        read_problem(write_problem(tmp_path, changed(DEFINITION, path, value)))
    assert str(refused.value).startswith("definition.json: ")


@pytest.mark.parametrize(
    ("path", "value", "says"),
    [
        ("inputs.s.value", 2**63, "64 bits"),
        ("axes.n", 2**47, "inputs.x: has more than"),
        ("tolerance.max_atol", 1e999, "Infinity is not JSON|larger than a number"),
        ("uuid", "a\udc80", "half of a character"),
    ],
)
def test_a_workload_that_cannot_be_judged_is_refused(
    tmp_path: Path, path: str, value: Any, says: str
) -> None:
    with pytest.raises(ProblemError, match=says) as refused:
        read_problem(write_problem(tmp_path, None, [changed(WORKLOAD, path, value)]))
    assert str(refused.value).startswith("workload.jsonl")


def test_of_more_workloads_than_can_be_judged_a_spread_by_size_is(tmp_path: Path) -> None:
    many = [{**WORKLOAD, "uuid": f"w{n}", "axes": {"n": 1 + n * 11 % 301}} for n in range(301)]
    assert len(read_problem(write_problem(tmp_path, None, many[:190])).workloads) == 190
    problem = read_problem(write_problem(tmp_path, None, many))
    sizes = sorted(one.axes["n"] for one in problem.workloads)
    assert len(sizes) == 190 and (sizes[0], sizes[-1]) == (1, 301)
    assert max(b - a for a, b in zip(sizes, sizes[1:], strict=False)) == 2
    assert [one.uuid for one in problem.workloads] == sorted(
        (one.uuid for one in problem.workloads), key=lambda uuid: int(uuid[1:])
    )
    assert "301 workloads, of which 190 are judged" in problem.warnings[0]
    weights = {f"w{n}": 1 for n in range(100, 120)}
    weighted = changed(DEFINITION, "kernelarc", {"weights": weights})
    problem = read_problem(write_problem(tmp_path, weighted, many))
    assert set(weights) <= {one.uuid for one in problem.workloads}
    weighted = changed(DEFINITION, "kernelarc", {"weights": {f"w{n}": 1 for n in range(200)}})
    with pytest.raises(ProblemError, match=r"200 workloads have a weight; at most 190"):
        read_problem(write_problem(tmp_path, weighted, many))
    assert problem.definition.name == "scale"


def test_a_fault_in_a_workload_that_is_not_judged_is_told(tmp_path: Path) -> None:
    many = [{**WORKLOAD, "uuid": f"w{n}", "axes": {"n": n}} for n in range(1, 300)]
    many[150] = {**many[150], "axes": {"m": 1}}
    with pytest.raises(ProblemError, match="workload.jsonl:151: axes.n: missing"):
        read_problem(write_problem(tmp_path, None, many))


@pytest.mark.parametrize("path", ["a\x00b", "x" * 300, "d/" * 3000 + "k.py", "loop"])
def test_a_source_that_can_be_no_file_is_named(tmp_path: Path, path: str) -> None:
    (tmp_path / "loop").symlink_to("loop")
    file = tmp_path / "solution.json"
    file.write_text(json.dumps({**SOLUTION, "sources": [{"path": path}]}))
    with pytest.raises(SolutionError, match="^sources: .* is no path of a file") as refused:
        read_solution(file, DEF)
    assert refused.value.reason == "envelope_bad_path"
    assert len(str(refused.value)) < 500


@pytest.mark.parametrize("field", ["author", "description", "definition"])
def test_a_solution_that_is_no_text_is_refused(field: str) -> None:
    with pytest.raises(SolutionError, match="UTF-8"):
        make_solution({**SOLUTION, field: "\ud800"})


def test_many_sources_and_many_keys_take_no_time_squared() -> None:
    many = [{"path": f"f{index}.py", "content": "x"} for index in range(100_000)]
    assert make_solution({**SOLUTION, "sources": [*SOLUTION["sources"], *many]}).sources
    keys = ", ".join(f'"k{index}": 0' for index in range(100_000))
    with pytest.raises(ValueError, match="'k99999' occurs twice"):
        parse_object(f'{{{keys}, "k99999": 1}}', "file")


def test_what_is_long_is_cut_in_messages() -> None:
    with pytest.raises(SolutionError) as refused:
        make_solution(changed(SOLUTION, "spec.languages", ["x" * 100_000]))
    assert len(str(refused.value)) < 3000 and "[cut," in str(refused.value)


def test_a_deep_expression_is_refused_however_deep_its_caller() -> None:
    def deeper(levels: int) -> int:
        return deeper(levels - 1) if levels else evaluate("-" * 499 + "1", {})

    with pytest.raises(ValueError, match="nested too deeply"):
        deeper(sys.getrecursionlimit() - 400)


@pytest.mark.parametrize("flag", ["-I\x00", "-Ia\nb", "-I"])
def test_an_include_folder_is_a_plain_path(flag: str) -> None:
    with pytest.raises(FlagRefused, match="-I takes a folder"):
        compiler_flags([flag], "src")


@pytest.mark.parametrize(
    "entry",
    [
        {"dtype": "F32", "shape": [0, 2**62], "data_offsets": [0, 0]},
        {"dtype": "F32", "shape": [0, 2**40, 2**40], "data_offsets": [0, 0]},
        {"dtype": "F32", "shape": [1] * 100, "data_offsets": [0, 4]},
    ],
)
def test_a_tensor_of_impossible_lengths_is_refused(tmp_path: Path, entry: dict[str, Any]) -> None:
    header = json.dumps({"x": entry}).encode()
    file = tmp_path / "t.safetensors"
    file.write_bytes(len(header).to_bytes(8, "little") + header + bytes(4))
    with pytest.raises(ValueError, match="tensor 'x'"):
        load_tensor(file, "x")
    with pytest.raises(ValueError, match="no such file"):
        find_file(tmp_path, "y" * 300)


@pytest.mark.parametrize(
    ("more", "says"),
    [
        ({"cache_dir": "a\x00b"}, "cache_dir"),
        ({"cache_dir": "/proc/none"}, "cache_dir"),
        ({"schedule": {"call_seconds": 1e300}}, "schedule.call_seconds"),
        ({"schedule": {"evict_bytes": 1 << 60}}, "schedule.evict_bytes"),
    ],
)
def test_a_request_that_no_machine_can_serve_is_refused(
    guard: Guard, more: dict[str, Any], says: str
) -> None:
    answer = guard.answer("calibrate", **more)
    assert isinstance(answer, Refusal) and says in answer.error, answer


def test_a_problem_that_this_machine_cannot_hold_is_refused(guard: Guard) -> None:
    from guard_process import problem

    asked = problem()
    asked["workloads"][0]["axes"]["n"] = 2**46
    answer = guard.answer("calibrate", problem=asked)
    assert isinstance(answer, Refusal) and "the device has" in answer.error, answer


def test_a_line_that_is_too_long_is_refused_and_the_next_is_read(guard: Guard) -> None:
    answer = guard.send(b'{"id": "' + b"x" * (65 << 20) + b'"}')
    assert isinstance(answer, Refusal) and "more than" in answer.error
    answer = guard.send(b'{"id": 1}')
    assert isinstance(answer, Refusal) and "more than" not in answer.error
