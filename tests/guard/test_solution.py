"""Solutions: the forms they come in, and what an envelope refuses."""

import json
import logging
from pathlib import Path
from typing import Any

import pytest
from problem_folders import DEFINITION, changed

from kernelarc_guard.problem import Definition
from kernelarc_guard.solution import (
    Solution,
    SolutionError,
    make_solution,
    read_solution,
    reference_solution,
    seed_solution,
)

DEF = Definition.model_validate(DEFINITION)
SOLUTION: dict[str, Any] = {
    "name": "first",
    "definition": "scale",
    "author": "someone",
    "spec": {
        "languages": ["cpp"],
        "entry_point": "main.cpp::run",
        "binding": "dlpack",
        "compile_options": {"cflags": ["-O2"]},
    },
    "sources": [
        {"path": "main.cpp", "content": "int run();"},
        {"path": "inc/a.h", "content": "#pragma once"},
    ],
}


def _write(path: Path, value: dict[str, Any]) -> Path:
    path.write_text(json.dumps(value))
    return path


def test_a_solution_file_and_a_folder_with_one_are_the_same(tmp_path: Path) -> None:
    file = _write(tmp_path / "solution.json", SOLUTION)
    solution = read_solution(file, DEF)
    assert read_solution(tmp_path, DEF) == solution
    assert (solution.entry_file, solution.entry_function) == ("main.cpp", "run")
    assert solution.is_native
    assert solution.binding == "dlpack"
    assert solution.spec.destination_passing_style
    assert Solution.model_validate_json(solution.model_dump_json()) == solution


def test_native_code_without_a_binding_uses_tvm_ffi() -> None:
    assert make_solution(changed(SOLUTION, "spec.binding", None)).binding == "tvm-ffi"


def test_an_empty_content_is_filled_from_the_file_beside(tmp_path: Path) -> None:
    (tmp_path / "main.cpp").write_text("int run() { return 0; }")
    value = changed(SOLUTION, "sources", [{"path": "main.cpp", "content": ""}])
    solution = read_solution(_write(tmp_path / "solution.json", value), DEF)
    assert solution.sources[0].content == "int run() { return 0; }"


def test_a_file_beside_is_never_taken_from_outside_the_folder(tmp_path: Path) -> None:
    (tmp_path / "secret.cpp").write_text("secret")
    inner = tmp_path / "inner"
    inner.mkdir()
    (inner / "link.cpp").symlink_to(tmp_path / "secret.cpp")
    for path in ("../secret.cpp", "link.cpp", str(tmp_path / "secret.cpp")):
        value = changed(SOLUTION, "sources", [{"path": path, "content": ""}])
        with pytest.raises(SolutionError, match="leaves the folder") as caught:
            read_solution(_write(inner / "solution.json", value), DEF)
        assert caught.value.reason == "envelope_bad_path"


@pytest.mark.parametrize(
    ("text", "destination"),
    [
        ("def run(x, s): return x * s", False),
        ("def run(x, s, y): y.copy_(x * s)", True),
        ("def run(x, s, y=None): return x * s", False),
        ("def run(*args): return args[0]", False),
        ("def run(x, s, y:", False),
    ],
)
def test_a_bare_python_file_passes_destinations_only_when_it_takes_them(
    tmp_path: Path, text: str, destination: bool
) -> None:
    path = tmp_path / "mine.py"
    path.write_text(text)
    solution = read_solution(path, DEF)
    assert solution.spec.destination_passing_style is destination
    assert solution.spec.entry_point == "mine.py::run"
    assert not solution.is_native
    assert solution.binding is None


@pytest.mark.parametrize(
    ("text", "binding"),
    [
        ("#include <tvm/ffi/tvm_ffi.h>\n", "tvm-ffi"),
        ("#include <dlpack/dlpack.h>\n", "dlpack"),
    ],
)
def test_a_bare_cpp_file_shows_its_binding(tmp_path: Path, text: str, binding: str) -> None:
    for name in ("a.cpp", "a.cc"):
        (tmp_path / name).write_text(text)
        solution = read_solution(tmp_path / name, DEF)
        assert solution.binding == binding
        assert solution.spec.destination_passing_style


def test_a_folder_with_one_source_file_is_that_file(tmp_path: Path) -> None:
    (tmp_path / "k.py").write_text("def run(x, s): return x * s")
    assert read_solution(tmp_path, DEF).entry_file == "k.py"
    (tmp_path / "l.py").write_text("def run(x, s): return x * s")
    with pytest.raises(SolutionError, match="expected a folder with one solution.json"):
        read_solution(tmp_path, DEF)


def test_unknown_keys_are_named_or_logged(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    value = changed(changed(SOLUTION, "licence", "MIT"), "spec.opt", 3)
    file = _write(tmp_path / "solution.json", value)
    warnings: list[str] = []
    read_solution(file, DEF, warnings)
    assert warnings == [
        "solution.json: licence: unknown key, ignored",
        "solution.json: spec.opt: unknown key, ignored",
    ]
    with caplog.at_level(logging.WARNING):
        read_solution(file, DEF)
    assert caplog.messages == warnings


def test_the_single_language_of_flashinfer_bench_is_read(tmp_path: Path) -> None:
    value = changed(SOLUTION, "spec.languages", ...)
    value["spec"]["language"] = "cpp"
    assert read_solution(_write(tmp_path / "s.json", value), DEF).spec.languages == ["cpp"]


def test_what_the_benchmarks_write_as_null_is_absent(tmp_path: Path) -> None:
    value = changed(SOLUTION, "spec.dependencies", None)
    value = changed(changed(value, "spec.binding", None), "author", None)
    value = changed(changed(value, "description", None), "spec.target_hardware", None)
    value = changed(value, "spec.compile_options", {"cflags": None})
    solution = read_solution(_write(tmp_path / "s.json", value), DEF)
    assert (solution.binding, solution.spec.dependencies, solution.author) == ("tvm-ffi", [], "")


def test_a_binding_of_python_is_ignored_with_a_warning(tmp_path: Path) -> None:
    value = changed(SOLUTION, "spec.entry_point", "k.py::run")
    value = changed(changed(value, "spec.languages", ["triton"]), "spec.binding", "torch")
    value["sources"] = [{"path": "k.py", "content": "def run(x, s): return x"}]
    warnings: list[str] = []
    assert read_solution(_write(tmp_path / "s.json", value), DEF, warnings).binding is None
    assert warnings == ["s.json: spec.binding: 'torch' ignored: not for Python"]


def test_native_languages_of_sol_execbench_are_extensions_of_torch(tmp_path: Path) -> None:
    value = changed(changed(SOLUTION, "spec.languages", ["cuda_cpp"]), "spec.binding", None)
    assert read_solution(_write(tmp_path / "s.json", value), DEF).binding == "torch"


def test_cuda_gets_the_flags_of_sol_execbench_only_with_an_options_object(tmp_path: Path) -> None:
    value = changed(SOLUTION, "spec.languages", ["cuda_cpp"])
    options = read_solution(_write(tmp_path / "s.json", value), DEF).spec.compile_options
    assert options is not None
    assert (options.cuda_cflags, options.ld_flags) == (["-O3", "--use_fast_math"], ["-lcuda"])
    options = make_solution(SOLUTION).spec.compile_options
    assert options is not None
    assert options.ld_flags == []


@pytest.mark.parametrize(
    ("path", "value", "reason"),
    [
        ("spec.languages", ["fortran"], "envelope_bad_language"),
        ("spec.languages", ["cpp", "python"], "envelope_bad_language"),
        ("spec.languages", [], "envelope_bad_text"),
        ("spec.languages", ["python"], "envelope_bad_entry"),
        ("spec.entry_point", "main.cpp", "envelope_bad_entry"),
        ("spec.entry_point", "main.cpp::", "envelope_bad_entry"),
        ("spec.entry_point", "main.cpp::a::b", "envelope_bad_entry"),
        ("spec.entry_point", "other.cpp::run", "envelope_bad_entry"),
        ("spec.binding", "pybind", "envelope_bad_text"),
        ("sources", [], "envelope_bad_text"),
        ("sources", [{"path": "/main.cpp", "content": "x"}], "envelope_bad_path"),
        ("sources", [{"path": "a/../main.cpp", "content": "x"}], "envelope_bad_path"),
        ("sources", [{"path": "./main.cpp", "content": "x"}], "envelope_bad_path"),
        ("sources", [{"path": "a\\main.cpp", "content": "x"}], "envelope_bad_path"),
        ("sources", [{"path": "main.cpp\n", "content": "x"}], "envelope_bad_path"),
        ("sources", [{"path": "main.cpp", "content": "a\0b"}], "envelope_bad_text"),
        ("sources", [{"path": "main.cpp", "content": "\ud800"}], "envelope_bad_text"),
        ("sources", [{"path": "main.cpp", "content": "x"}] * 2, "envelope_bad_path"),
        ("name", ..., "envelope_bad_text"),
    ],
)
def test_a_bad_solution_is_refused_with_a_reason_code(path: str, value: Any, reason: str) -> None:
    with pytest.raises(SolutionError) as caught:
        make_solution(changed(SOLUTION, path, value), "solution.json: ")
    assert caught.value.reason == reason
    assert str(caught.value).startswith("solution.json: ")
    assert "\n" not in str(caught.value)


def test_files_that_are_no_solution_are_refused(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text("nope")
    (tmp_path / "b.py").write_bytes(b"\xff\xfe")
    (tmp_path / "c.rs").write_text("fn run() {}")
    for name, says in [
        ("a.json", "a.json: line 1: expected JSON"),
        ("b.py", "b.py: byte 0: expected UTF-8 text"),
        ("c.rs", "c.rs: expected one of .json, .py"),
        ("gone.py", "gone.py: no such file"),
    ]:
        with pytest.raises(SolutionError, match=says):
            read_solution(tmp_path / name, DEF)


def test_a_solution_of_another_definition_is_refused(tmp_path: Path) -> None:
    file = _write(tmp_path / "solution.json", changed(SOLUTION, "definition", "other"))
    with pytest.raises(SolutionError, match="definition: 'other'; expected 'scale'"):
        read_solution(file, DEF)


def test_the_digest_is_of_what_runs_and_not_of_who_wrote_it() -> None:
    digest = make_solution(SOLUTION).digest
    same: list[tuple[str, Any]] = [
        ("name", "second"),
        ("author", "else"),
        ("spec.target_hardware", ["LOCAL"]),
    ]
    other: list[tuple[str, Any]] = [
        ("spec.compile_options.cflags", ["-O3"]),
        ("spec.destination_passing_style", False),
        ("sources", [*SOLUTION["sources"][:1], {"path": "inc/a.h", "content": "// b"}]),
    ]
    for path, value in same:
        assert make_solution(changed(SOLUTION, path, value)).digest == digest
    for path, value in other:
        assert make_solution(changed(SOLUTION, path, value)).digest != digest
    reordered = changed(SOLUTION, "sources", SOLUTION["sources"][::-1])
    assert make_solution(reordered).digest == digest


def test_the_reference_runs_as_a_value_returning_solution() -> None:
    solution = reference_solution(DEF)
    assert not solution.spec.destination_passing_style
    assert solution.sources[0].content == DEF.reference


@pytest.mark.parametrize(
    ("body", "copied"),
    [
        ("    x.index_add_(0, x, x)\n    return x", True),
        ("    x[0] += 1\n    return x", True),
        ("    x *= s\n    return x", True),
        ("    x[0].grad.zero_()\n    return x", True),
        ("    s += 1\n    return x * s", False),
        ("    x = x.double()\n    x += 1\n    return x", False),
        ("    y = x.clone()\n    y[0] = 1\n    return y.requires_grad_()", False),
    ],
)
def test_a_reference_that_writes_to_its_inputs_is_called_with_copies(
    body: str, copied: bool
) -> None:
    source = f"def run(x, s):\n{body}\n"
    solution = reference_solution(
        Definition.model_validate(changed(DEFINITION, "reference", source))
    )
    assert solution.sources[0].content == source
    assert (solution.entry_file == "on_copies.py") == copied
    if copied:
        assert "def run(x, s):\n    return _run(x.clone(), s)" in solution.sources[1].content
    kept = changed(changed(DEFINITION, "reference", source), "kernelarc", {"mutable_inputs": ["x"]})
    assert reference_solution(Definition.model_validate(kept)).entry_file == "reference.py"


def test_a_problem_without_a_seed_has_none(tmp_path: Path) -> None:
    assert seed_solution(tmp_path, DEF) is None
    (tmp_path / "solutions").mkdir()
    _write(tmp_path / "solutions" / "seed.json", SOLUTION)
    seed = seed_solution(tmp_path, DEF)
    assert seed is not None
    assert seed.name == "first"


def test_every_missing_field_is_named_up_to_a_bound(tmp_path: Path) -> None:
    with pytest.raises(SolutionError) as caught:
        read_solution(_write(tmp_path / "thin.json", {"name": "thin"}), DEF)
    said = str(caught.value)
    for field in ("definition", "spec", "sources"):
        assert f"{field}: Field required" in said
    assert "more" not in said and "\n" not in said
    bad = [{"path": f"/{number}.cpp", "content": "x"} for number in range(20)]
    with pytest.raises(SolutionError) as caught:
        make_solution(changed(SOLUTION, "sources", bad))
    said = str(caught.value)
    assert "sources.7.path" in said and "sources.8.path" not in said
    assert said.endswith("(and 12 more)")
