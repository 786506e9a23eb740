"""Targets: the readers of solutions and problems."""

import json
import tempfile
from pathlib import Path
from typing import Any

from fuzz.target import Target, one_line
from fuzz.values import NASTY_NUMBERS, NASTY_TEXT, json_files
from hypothesis import strategies as st
from problem_folders import DEFINITION, WORKLOAD

from kernelarc_guard.axes import MAX_EXTENT, axis_names, evaluate
from kernelarc_guard.definition import Definition
from kernelarc_guard.formats.traces import append_traces, read_traces
from kernelarc_guard.formats.writing import write_folder
from kernelarc_guard.problem import (
    MAX_WORKLOADS,
    Problem,
    ProblemError,
    read_documents,
    read_problem,
)
from kernelarc_guard.solution import Solution, SolutionError, read_solution
from kernelarc_guard.textfile import parse_object

SOLUTION: dict[str, Any] = {
    "name": "first",
    "definition": "scale",
    "author": "someone",
    "description": "",
    "spec": {
        "languages": ["cpp"],
        "entry_point": "main.cpp::run",
        "destination_passing_style": True,
        "binding": "dlpack",
        "dependencies": [],
        "target_hardware": ["cpu"],
        "compile_options": {"cflags": ["-O2"], "ld_flags": ["-lm"]},
    },
    "sources": [
        {"path": "main.cpp", "content": "int run();"},
        {"path": "inc/a.h", "content": "#pragma once"},
        {"path": "beside.h", "content": ""},
    ],
}
_DEFINITION = Definition.model_validate(DEFINITION)
_RICH: dict[str, Any] = {
    **DEFINITION,
    "kernelarc": {
        "mutable_inputs": [],
        "static_inputs": ["x"],
        "determinism": "bitwise",
        "distributions": {"x": ["scaled"]},
        "threads": 1,
        "weights": {"w1": 1.0},
        "bounds": {"bytes": 1},
    },
    "constraints": ["n > 0"],
    "custom_inputs_entrypoint": None,
}


_TRACE: dict[str, Any] = {
    "definition": "scale",
    "workload": WORKLOAD,
    "solution": "first",
    "evaluation": {
        "status": "PASSED",
        "log": "",
        "correctness": {"max_relative_error": 0.0, "max_absolute_error": "Infinity"},
        "performance": {"latency_ms": 1.0, "reference_latency_ms": 2.0, "speedup_factor": 2.0},
        "environment": {"hardware": "CPU", "libs": {"torch": "2"}},
        "timestamp": "now",
    },
}


def _read_solution(name: str, data: bytes) -> Solution | None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / name
        path.write_bytes(data)
        (Path(folder) / "beside.h").write_text("int there();")
        warnings: list[str] = []
        try:
            solution = read_solution(path, _DEFINITION, warnings)
        except SolutionError as error:
            one_line(str(error))
            assert str(error).startswith((name, "sources", "beside.h")), str(error)
            assert error.reason.startswith("envelope_")
            return None
        for line in warnings:
            one_line(line, name)
    text = solution.model_dump_json()
    again = Solution.model_validate_json(text)
    assert again == solution and again.digest == solution.digest
    assert solution.definition == _DEFINITION.name
    return solution


def _solution_json(data: bytes) -> None:
    _read_solution("solution.json", data)


def _bare_source(case: tuple[str, bytes]) -> None:
    name, data = case
    solution = _read_solution(name, data)
    if solution is not None:
        assert solution.sources[0].content == data.decode("utf-8-sig")
        assert solution.entry_function == "run"


def _problem(case: tuple[bytes, list[bytes]]) -> None:
    definition, lines = case
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "definition.json").write_bytes(definition)
        (Path(folder) / "workload.jsonl").write_bytes(b"\n".join(lines))
        try:
            problem = read_problem(Path(folder))
        except ProblemError as error:
            one_line(str(error))
            assert str(error).startswith(("definition.json", "workload.jsonl")), str(error)
            return
        kept = read_documents(Path(folder))
        write_folder(Path(folder) / "again", kept)
        assert read_problem(Path(folder) / "again").digest == problem.digest, "nothing is lost"
        assert read_documents(Path(folder) / "again").definition == kept.definition
    for line in problem.warnings:
        one_line(line)
    again = Problem.model_validate_json(problem.model_dump_json())
    assert again.digest == problem.digest, "what is judged is what was read"
    assert abs(sum(problem.weights()) - 1) < 1e-9 and min(problem.weights()) >= 0
    assert 1 <= len(problem.workloads) <= MAX_WORKLOADS
    for workload in problem.workloads:
        resolved = problem.definition.resolve(workload.axes)
        assert all(0 <= length <= MAX_EXTENT for length in resolved.values())
        for name in problem.definition.inputs:
            shape = problem.definition.input_shape(name, resolved)
            assert shape is None or all(0 <= length <= MAX_EXTENT for length in shape)


def _traces(lines: list[bytes]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "traces.jsonl"
        file.write_bytes(b"\n".join(lines))
        warnings: list[str] = []
        try:
            traces = read_traces(file, warnings)
        except ValueError as error:
            one_line(str(error), "traces.jsonl")
            return
        for line in warnings:
            one_line(line, "traces.jsonl:")
        append_traces(Path(folder) / "again.jsonl", [trace.document for trace in traces])
        again = read_traces(Path(folder) / "again.jsonl", [])
    assert [one.document for one in again] == [one.document for one in traces]


def _expression(case: tuple[str, dict[str, int]]) -> None:
    text, axes = case
    try:
        names = axis_names(text)
    except ValueError as error:
        one_line(str(error).replace(text, ""))
        return
    assert all(isinstance(name, str) for name in names)
    try:
        value = evaluate(text, axes)
    except ValueError as error:
        assert str(error)
        return
    assert type(value) is int and 0 <= value <= MAX_EXTENT
    assert names <= set(axes)


def _object(data: bytes) -> None:
    try:
        value = parse_object(data.decode("utf-8", "replace"), "file")
    except ValueError as error:
        one_line(str(error), "file: ")
        return
    json.dumps(value, ensure_ascii=False, allow_nan=False).encode()


_ATOMS = st.one_of(
    st.sampled_from(["n", "c", "0", "1", "2", "3.5", "1e308", "1e999", "9" * 400, "x", "1j"]),
    st.integers(-(2**70), 2**70).map(str),
)
_EXPRESSIONS = st.recursive(
    _ATOMS,
    lambda inner: st.one_of(
        st.tuples(
            inner, st.sampled_from(["+", "-", "*", "/", "//", "%", "**", " if ", "<"]), inner
        ).map("".join),
        inner.map(lambda text: f"({text})"),
        st.tuples(st.sampled_from(["-", "+", "~", "not ", "--" * 200]), inner).map("".join),
    ),
    max_leaves=12,
).map(lambda text: text[:500])
_AXES = st.fixed_dictionaries({"n": st.integers(0, 2**48), "c": st.integers(0, 10)})
_SOURCE_LINES = st.lists(
    st.one_of(
        st.text(max_size=60),
        st.sampled_from(
            [
                "def run(x, s):",
                "    return x",
                "def run(x, s, y): pass",
                "run = 3",
                '"""',
                "(" * 300,
                "-" * 5000 + "1",
                "x" + ".a" * 4000,
                "if 1:" + "\n if 1:" * 120,
                "# -*- coding: latin-1 -*-",
                "\f",
                "'\\N{no}'",
                "lambda: (yield)",
            ]
        ),
    ),
    max_size=6,
).map("\n".join)

TARGETS = [
    Target("json objects", st.one_of(st.binary(max_size=60), json_files({"a": [1]})), _object),
    Target("solution.json", json_files(SOLUTION), _solution_json, few=60),
    Target(
        "bare sources",
        st.tuples(
            st.sampled_from(["kernel.py", "kernel.cpp", "kernel.cu", "kernel.txt", "kernel.h"]),
            st.one_of(
                _SOURCE_LINES.map(lambda text: text.encode("utf-8", "surrogatepass")),
                st.binary(max_size=80),
            ),
        ),
        _bare_source,
    ),
    Target(
        "definition.json",
        st.tuples(json_files(_RICH), st.just([json.dumps(WORKLOAD).encode()])),
        _problem,
        few=60,
    ),
    Target(
        "workload.jsonl",
        st.tuples(
            st.just(json.dumps(_RICH).encode()),
            st.lists(json_files(WORKLOAD).map(lambda data: data.replace(b"\n", b" ")), max_size=3),
        ),
        _problem,
        few=60,
    ),
    Target(
        "traces",
        st.lists(json_files(_TRACE).map(lambda data: data.replace(b"\n", b" ")), max_size=3),
        _traces,
        few=60,
    ),
    Target(
        "axis expressions",
        st.tuples(st.one_of(_EXPRESSIONS, NASTY_TEXT, NASTY_NUMBERS.map(str)), _AXES),
        _expression,
        few=100,
    ),
]
