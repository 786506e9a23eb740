"""Source files: UTF-8 is text; Python files may declare something else; nothing is guessed."""

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from problem_folders import DEFINITION

from kernelarc_guard import pyast
from kernelarc_guard.problem import Definition
from kernelarc_guard.solution import SolutionError, make_solution, read_solution
from kernelarc_guard.sourcefile import read_source

DEF = Definition.model_validate(DEFINITION)
COOKIE = "# -*- coding: latin-1 -*-\nname = 'K\u00f6rnel'\ndef run(x):\n    return x\n"


def test_a_file_in_the_encoding_it_declares_keeps_its_text(tmp_path: Path) -> None:
    path = tmp_path / "candidate.py"
    path.write_bytes(COOKIE.encode("latin-1"))
    warnings: list[str] = []
    text = read_source(path, warnings)
    assert text == COOKIE.replace("latin-1", "utf-8")
    assert warnings == ["candidate.py: read as iso-8859-1, as it declares, and kept as UTF-8"]
    # What will run, byte for byte, says the same to the interpreter.
    names: dict[str, object] = {}
    exec(compile(text.encode(), "candidate.py", "exec"), names)
    assert names["name"] == "K\u00f6rnel"
    assert read_solution(path, DEF).sources[0].content == text


def test_a_file_that_is_utf_8_stays_as_it_is_whatever_it_declares(tmp_path: Path) -> None:
    path = tmp_path / "candidate.py"
    path.write_bytes(COOKIE.encode())
    warnings: list[str] = []
    assert read_source(path, warnings) == COOKIE
    assert warnings == []


def test_a_declaration_on_the_second_line_counts_and_a_later_one_does_not(tmp_path: Path) -> None:
    path = tmp_path / "candidate.py"
    second = f"#!/usr/bin/env python3\n{COOKIE}"
    path.write_bytes(second.encode("latin-1"))
    assert read_source(path, []) == second.replace("latin-1", "utf-8")
    path.write_bytes(f"import math\n\n{COOKIE}".encode("latin-1"))
    with pytest.raises(ValueError, match=r"^candidate.py: byte \d+: expected UTF-8 text"):
        read_source(path, [])


@pytest.mark.parametrize(
    "declared", ["utf-8", "no-such-encoding", "rot13", "ascii", "utf-7", "punycode"]
)
def test_a_file_that_is_not_what_it_declares_is_refused(tmp_path: Path, declared: str) -> None:
    path = tmp_path / "candidate.py"
    path.write_bytes(COOKIE.replace("latin-1", declared).encode("latin-1"))
    with pytest.raises(SolutionError, match=r"^candidate.py: byte \d+: expected UTF-8 text"):
        read_solution(path, DEF)


def test_only_python_files_may_declare_an_encoding(tmp_path: Path) -> None:
    path = tmp_path / "kernel.cpp"
    path.write_bytes(COOKIE.encode("latin-1"))
    with pytest.raises(SolutionError, match=r"^kernel.cpp: byte \d+: expected UTF-8 text"):
        read_solution(path, DEF)


def test_text_that_is_none_stays_an_error_of_the_envelope() -> None:
    fields = {
        "name": "n",
        "definition": DEF.name,
        "spec": {"languages": ["python"], "entry_point": "a.py::run"},
        "sources": [{"path": "a.py", "content": "# coding: latin-1\nname = '\udcf6'\n"}],
    }
    with pytest.raises(SolutionError) as raised:
        make_solution(fields)
    assert raised.value.reason == "envelope_bad_text"


def test_a_text_is_parsed_as_the_interpreter_will_read_its_file() -> None:
    tree = pyast.parse("# coding: unicode_escape\n# \\x0adef run(x): return x\n")
    assert list(pyast.functions(tree)) == ["run"]
    assert pyast.as_read("# coding: unicode_escape\nx = '\\d'\n").endswith("'\\d'\n")
    assert pyast.as_read(COOKIE) == COOKIE.encode().decode("latin-1")
    with pytest.raises(pyast.NotPython, match="line 1"):
        pyast.parse("# coding: no-such-encoding\n")


@given(st.binary(max_size=200))
@settings(max_examples=150, deadline=None)
def test_whatever_the_bytes_the_answer_is_a_text_or_a_clear_error(
    tmp_path_factory: pytest.TempPathFactory, data: bytes
) -> None:
    path = tmp_path_factory.mktemp("bytes") / "candidate.py"
    for start in (b"", b"# coding: latin-1\n", b"# coding: utf-16\n", b"# coding: cp037\n"):
        path.write_bytes(start + data)
        try:
            read_source(path, []).encode()
        except ValueError as error:
            assert str(error).startswith("candidate.py: ")
