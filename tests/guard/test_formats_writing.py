"""Round trips: what is read from a problem, a set or a solution is written without losing a key."""

import json
from pathlib import Path
from typing import Any

import pytest
from problem_folders import DEFINITION, WORKLOAD, changed, write_problem

from kernelarc_guard.formats.documents import Documents
from kernelarc_guard.formats.flashinfer import TraceSet, create_set, not_used
from kernelarc_guard.formats.writing import (
    documents_of,
    flashinfer_solution,
    plain_workload,
    read_solution_document,
    solution_document,
    write_folder,
)
from kernelarc_guard.problem import ProblemError, read_documents, read_problem
from kernelarc_guard.solution import make_solution, read_solution

FROM_FILE = {"type": "safetensors", "path": "./blob/w/a.safetensors", "tensor_key": "x"}
PLAIN = changed(changed(DEFINITION, "axes.half", ...), "axes.c.value", 4)
UNTOLD = changed(WORKLOAD, "tolerance", ...)


def _odd() -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Return a problem with a key that nothing understands at every level."""
    definition = changed(DEFINITION, "licence", {"by": ["a", None, 1.5]})
    for path in ("axes.n.unit", "axes.half.unit", "inputs.x.layout", "outputs.y.layout"):
        definition = changed(definition, path, "odd")
    definition = changed(definition, "tags", ["model:x"])
    line = changed(changed(WORKLOAD, "note", "ß\u2028"), "inputs.x.odd", 1)
    line = changed(line, "tolerance.required_match_ratio", 0.98)
    trace = {"definition": "scale", "workload": {**line, "uuid": "w2"}, "solution": None}
    return definition, [line, trace]


def test_a_problem_folder_is_written_as_it_was_read(tmp_path: Path) -> None:
    definition, lines = _odd()
    read = read_documents(write_problem(tmp_path / "a", definition, lines))
    assert (read.definition, read.workloads) == (definition, lines)
    write_folder(tmp_path / "b", read, tmp_path / "a")
    assert json.loads((tmp_path / "b" / "definition.json").read_text()) == definition
    again = (tmp_path / "b" / "workload.jsonl").read_text().split("\n")
    assert [json.loads(line) for line in again if line] == [plain_workload(one) for one in lines]
    assert read_problem(tmp_path / "b").digest == read_problem(tmp_path / "a").digest


def test_files_that_workloads_name_go_along(tmp_path: Path) -> None:
    line = changed(WORKLOAD, "inputs.x", FROM_FILE)
    folder = write_problem(tmp_path / "a", workloads=[line])
    read = read_documents(folder)
    with pytest.raises(ValueError, match="a.safetensors: no such file"):
        write_folder(tmp_path / "b", read, folder)
    assert not (tmp_path / "b").exists()
    (folder / "a.safetensors").write_bytes(b"tensors")
    write_folder(tmp_path / "b", read, folder)
    assert (tmp_path / "b" / "blob" / "w" / "a.safetensors").read_bytes() == b"tensors"


def test_a_problem_made_in_memory_becomes_documents_that_are_read_as_it(tmp_path: Path) -> None:
    problem = read_problem(write_problem(tmp_path / "a"))
    write_folder(tmp_path / "b", documents_of(problem))
    assert read_problem(tmp_path / "b").digest == problem.digest


def test_a_set_holds_problems_blobs_and_solutions_and_gives_them_back(tmp_path: Path) -> None:
    line = changed(UNTOLD, "inputs.x", FROM_FILE)
    folder = write_problem(tmp_path / "a", changed(PLAIN, "licence", "MIT"), [line])
    (folder / "a.safetensors").write_bytes(b"tensors")
    made = create_set(tmp_path / "set")
    file = made.add_problem(read_documents(folder), folder)
    assert file == tmp_path / "set" / "definitions" / "elementwise" / "scale.json"
    trace_set = TraceSet(tmp_path / "set")
    assert trace_set.names() == ["scale"]
    problem = trace_set.problem("scale")
    assert problem.digest == read_problem(folder).digest
    assert problem.folder == str(tmp_path / "set")
    assert (tmp_path / "set" / "blob" / "w" / "a.safetensors").is_file()
    assert trace_set.documents("scale").definition["licence"] == "MIT"
    # And back into a folder.
    write_folder(tmp_path / "b", trace_set.documents("scale"), trace_set.root)
    assert read_problem(tmp_path / "b").digest == problem.digest
    # Its solutions.
    solution = make_solution(
        {
            "name": "mine",
            "definition": "scale",
            "author": "me",
            "spec": {"languages": ["pytorch"], "entry_point": "k.py::run"},
            "sources": [{"path": "k.py", "content": "def run(x, s, y): y.copy_(x * s)"}],
        }
    )
    trace_set.add_solution(flashinfer_solution(solution_document(solution)), "elementwise")
    (found,) = trace_set.solutions("scale", [])
    assert (found.name, found.spec.languages, found.sources) == (
        "mine",
        ["python"],
        solution.sources,
    )
    assert trace_set.baseline("scale") is None


@pytest.mark.parametrize(
    ("definition", "line", "says"),
    [
        (DEFINITION, UNTOLD, "axes.half: FlashInfer-Trace has no expr axes"),
        (changed(PLAIN, "outputs.y.shape", ["n", "4"]), UNTOLD, "outputs.y.shape: FlashInfer"),
        (
            changed(PLAIN, "reference", PLAIN["reference"] + "def d(a, b): pass\n")
            | {"custom_inputs_entrypoint": "d"},
            UNTOLD,
            "custom_inputs_entrypoint: FlashInfer-Trace has no custom inputs",
        ),
        (changed(PLAIN, "name", "a/b"), UNTOLD, "name: 'a/b' cannot be the name of a file"),
        (changed(PLAIN, "op_type", ".."), UNTOLD, "op_type: '..' cannot be the name of a file"),
    ],
)
def test_what_a_set_cannot_hold_is_refused_and_nothing_is_written(
    tmp_path: Path, definition: dict[str, Any], line: dict[str, Any], says: str
) -> None:
    with pytest.raises(ValueError) as refused:
        create_set(tmp_path / "set").add_problem(Documents(definition, [line]))
    assert says in str(refused.value)
    assert not (tmp_path / "set" / "workloads").exists()


def test_a_set_is_read_by_a_relative_path_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    create_set(tmp_path / "set").add_problem(Documents(PLAIN, [UNTOLD]))
    monkeypatch.chdir(tmp_path)
    assert TraceSet(Path("set")).problem("scale").folder == str(tmp_path / "set")
    monkeypatch.chdir(tmp_path / "set" / "definitions" / "elementwise")
    assert read_problem(Path("scale.json")).definition.name == "scale"


def test_a_set_keeps_tolerances_for_us(tmp_path: Path) -> None:
    documents = Documents(PLAIN, [WORKLOAD, {**UNTOLD, "uuid": "w2"}])
    made = create_set(tmp_path / "set")
    made.add_problem(documents)
    assert made.problem("scale").workloads[0].tolerance.max_atol == 1e-6
    assert not_used(documents) == [
        "tolerance: of 1 workload kept; FlashInfer-Bench does not look at it"
    ]


def test_a_set_is_not_a_problem_and_says_what_it_holds(tmp_path: Path) -> None:
    made = create_set(tmp_path / "set")
    for name in ("gemm_a", "gemm_b", "softmax_c"):
        made.add_problem(Documents({**PLAIN, "name": name}, [UNTOLD]))
    with pytest.raises(ProblemError, match=r"name one of its 3 definitions: .*:NAME \(gemm_a"):
        read_problem(made.root)
    with pytest.raises(ProblemError, match="no definition 'gemm_x' among 3; there are gemm_a, gem"):
        made.file("gemm_x")
    with pytest.raises(ProblemError, match="expected a FlashInfer-Trace set"):
        TraceSet(tmp_path)
    (made.root / "workloads" / "elementwise" / "gemm_a.jsonl").unlink()
    with pytest.raises(ProblemError, match=r"gemm_a.jsonl: no such file; expected the workloads"):
        made.problem("gemm_a")


def test_a_solution_keeps_what_its_file_says_and_gains_its_sources(tmp_path: Path) -> None:
    definition = read_problem(write_problem(tmp_path / "p")).definition
    document: dict[str, Any] = {
        "name": "mine",
        "definition": "scale",
        "author": "me",
        "odd": [1],
        "spec": {
            "language": "cpp",
            "entry_point": "k.cpp::run",
            "target_hardware": ["NVIDIA_H100"],
            "odd": {"a": None},
        },
        "sources": [{"path": "k.cpp", "odd": 2}, {"path": "k.h", "content": "// é"}],
    }
    (tmp_path / "k.cpp").write_text("int run();")
    (tmp_path / "mine.json").write_text(json.dumps(document))
    kept = read_solution_document(tmp_path / "mine.json", definition, [])
    assert kept == {
        **document,
        "sources": [{"path": "k.cpp", "odd": 2, "content": "int run();"}, document["sources"][1]],
    }
    again = tmp_path / "again.json"
    again.write_text(json.dumps(kept))
    first = read_solution(tmp_path / "mine.json", definition, [])
    assert read_solution(again, definition, []) == first
    assert flashinfer_solution(kept) == kept


def test_compile_options_are_not_lost_in_silence() -> None:
    value: dict[str, Any] = {
        "name": "a",
        "spec": {"languages": ["cuda_cpp"], "compile_options": {"cflags": ["-g"]}},
    }
    with pytest.raises(ValueError, match="compile_options: FlashInfer-Bench has none"):
        flashinfer_solution(value)
    value["spec"]["compile_options"]["cflags"] = []
    assert flashinfer_solution(value)["spec"] == {"language": "cuda", "target_hardware": ["LOCAL"]}


def test_older_files_and_rows_of_a_table_are_read_and_say_so(tmp_path: Path) -> None:
    old = changed(changed(DEFINITION, "op_type", ...), "inputs.x.dtype", "float8_e4m3")
    old = {**old, "type": "norm", "axes": json.dumps(old["axes"])}
    old["axes"] = old["axes"].replace('"type": "var"', '"type": "var", "description": null')
    problem = read_problem(write_problem(tmp_path, old))
    assert problem.definition.op_type == "norm"
    assert problem.definition.inputs["x"].dtype == "float8_e4m3fn"
    assert problem.warnings == [
        "definition.json: type: read as op_type, its name today",
        "definition.json: inputs.x.dtype: 'float8_e4m3' read as float8_e4m3fn, its name today",
    ]
    write_problem(tmp_path, {**old, "axes": "[1]"})
    with pytest.raises(ProblemError, match="definition.json: axes: expected a JSON object, found"):
        read_problem(tmp_path)


def test_parameters_with_other_names_are_passed_by_position(tmp_path: Path) -> None:
    other = changed(DEFINITION, "reference", "def run(a, b):\n    return a * b\n")
    assert read_problem(write_problem(tmp_path, other)).warnings == [
        "definition.json: reference: run calls its parameters (a, b); "
        "the inputs (x, s) are passed by position"
    ]


def test_a_warning_about_many_lines_is_given_once(tmp_path: Path) -> None:
    line = changed(WORKLOAD, "tolerance.required_match_ratio", 0.98)
    lines = [{**line, "uuid": f"w{n}"} for n in range(16)]
    assert read_problem(write_problem(tmp_path, None, lines)).warnings == [
        "workload.jsonl:1: tolerance.required_match_ratio: unknown key, ignored "
        "(here and in 15 more lines)"
    ]


def test_the_configuration_of_another_harness_is_said_to_be_ignored(tmp_path: Path) -> None:
    (write_problem(tmp_path) / "config.json").write_text('{"warmup_runs": 3}')
    assert read_problem(tmp_path).warnings == [
        "config.json: ignored: the guard has its own schedule"
    ]
