"""Target: C++ sources through the real builder in its sandbox."""

import tempfile
from pathlib import Path

from fuzz.target import Target
from fuzz.values import NASTY_TEXT
from guard_process import cpp
from hypothesis import strategies as st

from kernelarc_guard.build import BuildFailed, build
from kernelarc_guard.sandbox import find_sandbox
from kernelarc_guard.solution import SolutionError, make_solution

_LINES = st.one_of(
    NASTY_TEXT,
    st.sampled_from(
        [
            'extern "C" int run() { return 0; }',
            '#error "src/kernel.cpp:1:1: error: forged"',
            '#line 2147483647 "/etc/passwd"',
            '#line 1 "a\\nb: error: c"',
            '#include "/etc/passwd"',
            '#include "/proc/self/environ"',
            "#include __FILE__",
            '#pragma GCC error "\\x1b[2J"',
            'asm(".incbin \\"/etc/passwd\\"");',
            'asm(".fill 100000000, 8, 0");',
            "static int big[1 << 28] = {1};",
            "template <int N> struct A { A<N + 1> next; }; A<0> a;",
            "#define A A A",
            "(" * 5000,
            "int x = " + "-" * 5000 + "1;",
            "}" * 50,
            "??=error",
            '_Pragma("message \\"hello\\"")',
        ]
    ),
)
_SOURCES = st.lists(_LINES, max_size=4).map("\n".join)


def _built(source: str) -> None:
    fields = cpp(source)
    try:
        solution = make_solution(fields)
    except SolutionError:
        return
    with tempfile.TemporaryDirectory() as folder:
        cache = Path(folder)
        try:
            built = build(solution, cache, seconds=20, memory_bytes=2 << 30, sandbox=find_sandbox())
        except BuildFailed as failed:
            assert failed.reason in ("build_failed", "timeout") and failed.detail
            failed.detail.encode()
            for message in failed.messages:
                message.model_dump_json().encode()
        else:
            assert built.entry.is_file() and built.entry.stat().st_size < 512 << 20
        left = [path.name for path in cache.iterdir() if path.name not in ("locks", "native")]
        assert left == [], "a half-made entry was left"


TARGETS = [Target("C++ sources in the builder", _SOURCES, _built, few=3)]
