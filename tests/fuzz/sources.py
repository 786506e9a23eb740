"""Targets: what reads a candidate's text and a compiler's output."""

import time

from fuzz.target import Target
from fuzz.values import NASTY_TEXT
from hypothesis import strategies as st
from problem_folders import DEFINITION

from kernelarc_guard.compile_flags import FlagRefused, compiler_flags, linker_flags
from kernelarc_guard.compiler_messages import MOST, read_messages
from kernelarc_guard.definition import Definition
from kernelarc_guard.faults import SolutionFault
from kernelarc_guard.policy import check_policy, policy_observations
from kernelarc_guard.protocol import ANSWER
from kernelarc_guard.reasons import REASONS
from kernelarc_guard.report import Outcome, Report
from kernelarc_guard.solution import SolutionError, make_solution

_DEFINITION = Definition.model_validate(DEFINITION)
_SECONDS = 20.0
"""A source of a few kilobytes is looked through in far less."""

_NAMES = st.one_of(
    st.sampled_from(
        ["torch", "time", "os", "sys", "ctypes", "f", "g", "getattr", "setattr", "__builtins__"]
    ),
    st.from_regex(r"[a-z_]{1,4}", fullmatch=True),
)
_STRINGS = NASTY_TEXT.map(lambda text: ascii(text[:2000]))
_EXPRESSIONS = st.recursive(
    st.one_of(_NAMES, _STRINGS, st.integers().map(str)),
    lambda inner: st.one_of(
        st.tuples(inner, _NAMES).map(lambda two: f"{two[0]}.{two[1]}"),
        st.tuples(inner, inner).map(lambda two: f"{two[0]}[{two[1]}]"),
        st.tuples(inner, inner, inner).map(lambda three: f"{three[0]}({three[1]}, {three[2]})"),
        st.tuples(inner, inner).map(lambda two: f"getattr({two[0]}, {two[1]})"),
        st.tuples(_NAMES, inner).map(lambda two: f"(lambda {two[0]}: {two[1]})"),
        st.tuples(inner, st.integers(2, 3000)).map(lambda two: two[0] + ".a" * two[1]),
        st.tuples(inner, st.integers(2, 90)).map(lambda two: "(" * two[1] + two[0] + ")" * two[1]),
    ),
    max_leaves=6,
)
_STATEMENTS = st.one_of(
    st.tuples(_EXPRESSIONS, _EXPRESSIONS).map(lambda two: f"{two[0]} = {two[1]}"),
    _EXPRESSIONS,
    _NAMES.map(lambda name: f"import {name}"),
    st.tuples(_NAMES, _NAMES).map(lambda two: f"from {two[0]} import {two[1]} as f"),
    st.tuples(_NAMES, _EXPRESSIONS).map(lambda two: f"def {two[0]}(x=1):\n    return {two[1]}"),
    _EXPRESSIONS.map(lambda text: f"class f:\n    global g\n    g = {text}"),
    st.tuples(_NAMES, st.integers(2, 400)).map(lambda two: f"time.time()\n{two[0]}.a\n" * two[1]),
    NASTY_TEXT,
)
_SOURCES = st.lists(_STATEMENTS, max_size=6).map("\n".join)


def _policy(source: str) -> None:
    fields = {
        "name": "x",
        "definition": "scale",
        "spec": {"languages": ["python"], "entry_point": "k.py::run"},
        "sources": [{"path": "k.py", "content": source}],
    }
    try:
        solution = make_solution(fields)
    except SolutionError:
        return
    begin = time.monotonic()
    findings = check_policy(solution, _DEFINITION)
    report = Report("r", "screen", lambda _: None)
    for seen in policy_observations(solution):
        report.observe(seen)
    assert time.monotonic() - begin < _SECONDS
    assert all(found.reason in REASONS and found.line >= 1 for found in findings)
    text = "; ".join(found.message for found in findings[:10])
    _told(report, SolutionFault("policy_forbidden", text))


def _told(report: Report, fault: SolutionFault) -> None:
    """Assert that whatever was said arrives at the host."""
    report.settle(Outcome("policy", fault))
    result = report.result({}, 0.0)
    line = result.model_dump_json().encode()
    assert ANSWER.validate_json(line) == result
    assert len(line) < 1 << 22


def _words(case: tuple[str, list[str]]) -> None:
    detail, observations = case
    report = Report("r", "screen", lambda _: None)
    for seen in observations:
        report.observe(seen)
    _told(report, SolutionFault("raised", detail))


def _messages(output: str) -> None:
    for message in (found := read_messages(output, "src", "kernel.cpp")):
        assert message.line >= 0 and message.message and len(message.message) <= 1000
    assert len(found) <= MOST


def _flags(flags: list[str]) -> None:
    try:
        given = compiler_flags(flags, "src")
    except FlagRefused as refused:
        assert "not allowed" in str(refused)
    else:
        for flag in given:
            assert flag.startswith("-") and "\n" not in flag and "\x00" not in flag
            assert not flag.startswith(("-o", "-B", "-fplugin", "-wrapper", "-x", "-T", "-include"))
    try:
        linker_flags(flags)
    except FlagRefused as refused:
        assert "not allowed" in str(refused)


_LINES = st.lists(
    st.one_of(
        st.text(max_size=80),
        st.tuples(st.text(max_size=20), st.integers(0, 10**30), st.text(max_size=20)).map(
            lambda three: f"{three[0]}:{three[1]}: error: {three[2]}"
        ),
        st.sampled_from(
            [
                "src/k.cpp:3:1: fatal error: no such file",
                "/usr/include/x.h:1: warning: old",
                "k.cpp:" + "9" * 5000 + ": error: far",
                "ld: error: undefined symbol: run",
                "undefined reference to `run'" * 200,
                "x" * 10_000,
                "a:" * 2000,
                "cc1plus: out of memory",
            ]
        ),
    ),
    max_size=40,
).map("\n".join)
_FLAGS = st.lists(
    st.one_of(
        st.sampled_from(
            [
                "-O3",
                "-fplugin=x.so",
                "-fno-plugin",
                "-DA=1",
                "-D",
                "-I/etc",
                "-I..",
                "-Isrc/../..",
                "-Isrc",
                "-o",
                "-B.",
                "-Wl,-z,now",
                "-Wp,-MD,x",
                "-Wa,-I/etc",
                "-march=native",
                "-mllvm",
                "-fuse-ld=x",
                "-std=c++20",
                "-lm",
                "-g3",
                "-DA=\n-o",
                "@x",
                "-fdump-tree-all",
                "-Winvalid",
            ]
        ),
        NASTY_TEXT,
        st.tuples(
            st.sampled_from(["-f", "-m", "-W", "-D", "-I", "-std="]), st.text(max_size=12)
        ).map("".join),
    ),
    max_size=4,
)

TARGETS = [
    Target("policy of Python sources", _SOURCES, _policy, few=60),
    Target("details and observations", st.tuples(NASTY_TEXT, st.lists(NASTY_TEXT)), _words),
    Target("compiler messages", _LINES, _messages, few=60),
    Target("compiler flags", _FLAGS, _flags, few=100),
]
