"""The builder with the real compiler: what it makes, what it refuses, and that it always ends."""

import ctypes
import json
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import pytest

from kernelarc_guard import compile_job
from kernelarc_guard.build import BuildFailed, Built, build
from kernelarc_guard.compile_flags import FlagRefused, compiler_flags, linker_flags
from kernelarc_guard.compiler_messages import read_messages
from kernelarc_guard.confinement import Confinement
from kernelarc_guard.sandbox import find_sandbox
from kernelarc_guard.solution import CompileOptions, Solution, SourceFile, Spec

GUARD = Path(compile_job.__file__).parents[1]
SANDBOX = find_sandbox()
MEMORY = 4 << 30

ADD = """
#include <dlpack/dlpack.h>
extern "C" int run(const DLTensor* x, DLTensor* y) {
    y->ndim = x->ndim + 1;
    return 0;
}
"""
ENDLESS = """
constexpr unsigned spin() {
    unsigned x = 1;
    for (unsigned long i = 0; i < 1000000000000ul; ++i) x = x * 3 + 1;
    return x;
}
constexpr unsigned value = spin();
extern "C" int run() { return value; }
"""
NO_LIMIT = ("-fconstexpr-ops-limit=999999999999999999", "-fconstexpr-loop-limit=2147483647")


def native(
    *files: tuple[str, str],
    binding: Literal["tvm-ffi", "dlpack"] = "dlpack",
    entry: str = "run",
    cflags: Sequence[str] = (),
    ld_flags: Sequence[str] = (),
) -> Solution:
    """A C++ solution; the first file has the entry function."""
    return Solution(
        name="candidate",
        definition="problem",
        spec=Spec(
            languages=["cpp"],
            entry_point=f"{files[0][0]}::{entry}",
            binding=binding,
            compile_options=CompileOptions(cflags=list(cflags), ld_flags=list(ld_flags)),
        ),
        sources=[SourceFile(path=path, content=content) for path, content in files],
    )


def python(*files: tuple[str, str], entry: str = "run") -> Solution:
    """A Python solution; the first file has the entry function."""
    return Solution(
        name="candidate",
        definition="problem",
        spec=Spec(languages=["python"], entry_point=f"{files[0][0]}::{entry}"),
        sources=[SourceFile(path=path, content=content) for path, content in files],
    )


def make(solution: Solution, cache: Path, seconds: float = 120.0, memory: int = MEMORY) -> Built:
    return build(solution, cache, seconds=seconds, memory_bytes=memory, sandbox=SANDBOX)


def leftovers(cache: Path) -> list[str]:
    """What a build left in the cache beside entries and locks."""
    return [path.name for path in cache.iterdir() if path.name not in {"native", "python", "locks"}]


def ended(pid: int) -> bool:
    """Wait for a process that is not ours to end."""
    try:
        pidfd = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    try:
        return bool(select.select([pidfd], [], [], 20)[0])
    finally:
        os.close(pidfd)


def test_a_light_solution_is_built_into_a_loadable_library(tmp_path: Path) -> None:
    built = make(native(("kernel.cpp", ADD)), tmp_path)
    run = ctypes.CDLL(str(built.entry)).run
    tensors = [ctypes.create_string_buffer(64) for _ in range(2)]
    assert run(*tensors) == 0
    # ndim follows a pointer and a device of two 32-bit numbers.
    assert ctypes.c_int32.from_buffer(tensors[1], 16).value == 1
    assert (built.root / "kernel.cpp").read_text() == ADD
    assert not built.cached and built.messages == [] and built.seconds > 0
    assert leftovers(tmp_path) == []


def test_a_tvm_ffi_solution_is_built_into_a_loadable_module(tmp_path: Path) -> None:
    source = """
    #include <tvm/ffi/tvm_ffi.h>
    int64_t add(int64_t a, int64_t b) { return a + b; }
    TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, add)
    """
    built = make(native(("kernel.cc", source), binding="tvm-ffi"), tmp_path)
    script = "import sys, tvm_ffi; print(tvm_ffi.load_module(sys.argv[1]).run(40, 2))"
    done = subprocess.run(
        [sys.executable, "-c", script, built.entry], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "42"


def test_several_files_and_folders_build_together(tmp_path: Path) -> None:
    built = make(
        native(
            ("kernel.cpp", '#include "deep/part.h"\nextern "C" int run() { return part(); }\n'),
            ("deep/part.h", "int part();\n"),
            ("deep/part.cc", '#include "part.h"\n#include <value.h>\nint part() { return V; }\n'),
            ("include/value.h", "#define V W\n"),
            cflags=["-Iinclude", "-DW=7", "-O2", "-std=c++20"],
            ld_flags=["-lcuda", "-lm"],
        ),
        tmp_path,
    )
    assert ctypes.CDLL(str(built.entry)).run() == 7


def test_a_second_build_comes_from_the_cache(tmp_path: Path) -> None:
    solution = native(("kernel.cpp", "#warning kept\n" + ADD))
    first, second = make(solution, tmp_path), make(solution, tmp_path)
    assert (first.cached, second.cached) == (False, True)
    assert second.digest == first.digest and second.entry == first.entry
    assert [(m.severity, m.line) for m in second.messages] == [("warning", 1)]
    assert second.messages == first.messages


def test_equal_code_has_an_equal_digest_whatever_its_comments_say(tmp_path: Path) -> None:
    plain = make(native(("kernel.cpp", ADD)), tmp_path / "one")
    described = make(native(("other.cpp", "// described\n\n" + ADD)), tmp_path / "two")
    assert plain.digest == described.digest
    changed = make(native(("kernel.cpp", ADD.replace("+ 1", "+ 2"))), tmp_path)
    assert changed.digest != plain.digest


def test_another_function_of_the_same_library_has_another_digest(tmp_path: Path) -> None:
    source = 'extern "C" int run() { return 1; }\nextern "C" int walk() { return 2; }\n'
    run = make(native(("kernel.cpp", source)), tmp_path)
    walk = make(native(("kernel.cpp", source), entry="walk"), tmp_path)
    assert walk.cached and run.entry == walk.entry and run.digest != walk.digest


def test_errors_are_told_by_file_and_line(tmp_path: Path) -> None:
    bad = '#include "part.h"\n#warning just so\nextern "C" int run() { return missing; }\n'
    with pytest.raises(BuildFailed) as failure:
        make(native(("kernel.cpp", bad), ("part.h", "int broken(;\n")), tmp_path)
    failed = failure.value
    assert failed.reason == "build_failed"
    assert [(m.file, m.line, m.severity) for m in failed.messages][:2] == [
        ("part.h", 1, "error"),
        ("kernel.cpp", 3, "error"),
    ]
    assert failed.messages[-1].severity == "warning"
    assert "missing" in failed.messages[1].message
    assert failed.detail.startswith("part.h:1: ")
    assert str(tmp_path) not in failed.detail
    assert leftovers(tmp_path) == []


def test_a_symbol_that_is_nowhere_defined_is_an_error_of_the_build(tmp_path: Path) -> None:
    source = 'int nowhere();\nextern "C" int run() { return nowhere(); }\n'
    with pytest.raises(BuildFailed) as failure:
        make(native(("kernel.cpp", source)), tmp_path)
    assert any("nowhere" in message.message for message in failure.value.messages)


def test_many_errors_are_cut_to_twenty(tmp_path: Path) -> None:
    source = "\n".join(f"int a{i} = b{i};" for i in range(200))
    with pytest.raises(BuildFailed) as failure:
        make(native(("kernel.cpp", source)), tmp_path)
    assert len(failure.value.messages) == 20


def test_a_flood_of_output_neither_fills_memory_nor_stops_the_build(tmp_path: Path) -> None:
    flood = "\n".join(f"#warning {'x' * 200} {i}" for i in range(3000))
    built = make(native(("kernel.cpp", f"{flood}\n{ADD}")), tmp_path)
    assert len(built.messages) == 20
    assert ctypes.CDLL(str(built.entry)).run is not None


def test_a_failed_build_is_tried_again(tmp_path: Path) -> None:
    solution = native(("kernel.cpp", ENDLESS), cflags=NO_LIMIT)
    for _ in range(2):
        started = time.monotonic()
        with pytest.raises(BuildFailed) as failure:
            make(solution, tmp_path, seconds=1.0)
        assert failure.value.reason == "timeout"
        assert 1.0 <= time.monotonic() - started < 30
    assert leftovers(tmp_path) == []


def test_a_file_without_end_is_not_read_for_ever(tmp_path: Path) -> None:
    source = '#include "/dev/zero"\n'
    with pytest.raises(BuildFailed) as failure:
        make(native(("kernel.cpp", source)), tmp_path, seconds=20.0, memory=512 << 20)
    assert failure.value.reason in {"build_failed", "timeout"}


def test_a_compiler_without_memory_is_a_failed_build(tmp_path: Path) -> None:
    source = "int numbers[] = {" + "1," * 2_000_000 + "};\n"
    with pytest.raises(BuildFailed) as failure:
        make(native(("kernel.cpp", source)), tmp_path, memory=128 << 20)
    assert failure.value.reason == "build_failed"
    assert failure.value.detail


@pytest.mark.parametrize(
    "flag",
    [
        "-o/tmp/x",
        "-o",
        "@arguments",
        "-fplugin=evil",
        "-wrapper",
        "-B/tmp",
        "-specs=evil.specs",
        "-include",
        "-include/etc/passwd",
        "-I/etc",
        "-I../other",
        "-I",
        "-Wl,-rpath,/tmp",
        "-Wp,-MD,/tmp/x",
        "-Wa,-a=/tmp/x",
        "-fdump-tree-all",
        "-fprofile-generate",
        "-fprofile-use=/tmp/x",
        "-fuse-ld=gold",
        "-save-temps",
        "-x",
        "kernel2.cpp",
        "-Xlinker",
        "-march=native\n-o",
        "",
    ],
)
def test_a_flag_that_reaches_outside_is_refused(flag: str, tmp_path: Path) -> None:
    with pytest.raises(FlagRefused, match="not allowed"):
        compiler_flags([flag], "src")
    with pytest.raises(BuildFailed, match="not allowed"):
        make(native(("kernel.cpp", ADD), cflags=[flag]), tmp_path)


def test_usual_flags_are_allowed() -> None:
    usual = (
        "-O3 -Ofast -O -std=c++20 -std=gnu++17 -ffast-math -fno-exceptions -funroll-loops"
        " -fopenmp -march=native -march=x86-64-v3 -mavx2 -mprefer-vector-width=512 -mtune=znver3"
        " -Wall -Wno-unused-variable -DTILE=64 -DNDEBUG -DNAME=f(x) -UX -g -pthread -shared -fPIC"
        " -ftemplate-depth=2000 -w"
    ).split()
    assert compiler_flags(usual, "src") == usual
    assert compiler_flags(["-Iparts/include"], "src") == ["-Isrc/parts/include"]
    assert linker_flags(["-lm", "-fopenmp", "-lcuda"]) == ["-lm", "-fopenmp"]


@pytest.mark.parametrize("flag", ["-L/tmp", "-lcurl", "/tmp/evil.so", "-Wl,-rpath,/tmp", "-T"])
def test_a_library_that_is_not_listed_is_refused(flag: str, tmp_path: Path) -> None:
    with pytest.raises(BuildFailed, match="linker flag"):
        make(native(("kernel.cpp", ADD), ld_flags=[flag]), tmp_path)


def test_messages_of_system_headers_do_not_show_where_they_are() -> None:
    output = (
        "In file included from src/kernel.cpp:1:\n"
        "/opt/gcc/include/c++/12/bits/stl_vector.h:10:3: error: static assertion failed\n"
        "src/a b/kernel.cpp:7: warning: odd: very odd\n"
        "cc1plus: fatal error: out of patience\n"
        "/usr/bin/ld: /tmp/x.o: in function `run':\n"
        "kernel.cpp:(.text+0x5): undefined reference to `f'\n"
        "collect2: error: ld returned 1 exit status\n"
    )
    read = [(m.file, m.line, m.message) for m in read_messages(output, "src", "kernel.cpp")]
    assert read == [
        ("bits/stl_vector.h", 10, "static assertion failed"),
        ("kernel.cpp", 0, "out of patience"),
        ("kernel.cpp", 0, "undefined reference to `f'"),
        ("kernel.cpp", 0, "ld returned 1 exit status"),
        ("a b/kernel.cpp", 7, "odd: very odd"),
    ]


def test_two_processes_build_the_same_solution_once(tmp_path: Path) -> None:
    solution = native(("kernel.cpp", "#include <vector>\n#include <algorithm>\n" + ADD))
    script = (
        "import sys; from pathlib import Path\n"
        "sys.path.insert(0, sys.argv[1])\n"
        "from kernelarc_guard.build import build\n"
        "from kernelarc_guard.sandbox import find_sandbox\n"
        "from kernelarc_guard.solution import Solution\n"
        "solution = Solution.model_validate_json(sys.argv[3])\n"
        "built = build(solution, Path(sys.argv[2]), seconds=120, memory_bytes=1 << 32, "
        "sandbox=find_sandbox())\n"
        "print(built.cached, built.digest)\n"
    )
    command = [sys.executable, "-c", script, str(GUARD), str(tmp_path), solution.model_dump_json()]
    builders = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    said = [builder.communicate(timeout=120)[0].split() for builder in builders]
    assert sorted(cached for cached, _ in said) == ["False", "True"]
    assert len({digest for _, digest in said}) == 1


def test_a_python_solution_is_placed_as_it_is_and_not_compiled(tmp_path: Path) -> None:
    files = [("candidate.py", "from parts import f as run\n"), ("parts/__init__.py", "f = (\n")]
    first = make(python(*files), tmp_path)
    assert first.entry == first.root / "candidate.py"
    assert first.entry.read_text() == files[0][1]
    assert (first.root / "parts/__init__.py").read_text() == "f = (\n"
    assert not first.cached and make(python(*files), tmp_path).cached
    assert make(python(*files, ("more.py", "")), tmp_path).digest != first.digest
    assert make(python(*files, entry="f"), tmp_path).digest != first.digest


def test_a_python_solution_that_changed_its_own_folder_is_placed_anew(tmp_path: Path) -> None:
    solution = python(("candidate.py", "def run(x): return x\n"))
    first = make(solution, tmp_path)
    first.entry.write_text("def run(x): return 0\n")
    second = make(solution, tmp_path)
    assert not second.cached and "return x" in second.entry.read_text()
    (second.root / "left.py").write_text("")
    third = make(solution, tmp_path)
    assert not third.cached and not (third.root / "left.py").exists()


def test_a_path_that_is_file_and_folder_is_a_failed_build(tmp_path: Path) -> None:
    for files in ([("a.py", ""), ("a.py/b.py", "")], [("a.py/b.py", ""), ("a.py", "")]):
        with pytest.raises(BuildFailed, match="both a file and a folder"):
            make(python(*files), tmp_path)
    assert leftovers(tmp_path) == []


def test_native_code_of_other_kinds_is_refused_with_what_is_possible(tmp_path: Path) -> None:
    cuda = native(("kernel.cpp", ADD))
    spec = cuda.spec.model_copy(update={"languages": ["cuda"]})
    with pytest.raises(BuildFailed, match="only cpp"):
        make(cuda.model_copy(update={"spec": spec}), tmp_path)
    spec = cuda.spec.model_copy(update={"binding": "torch"})
    with pytest.raises(BuildFailed, match="expected 'tvm-ffi' or 'dlpack'"):
        make(cuda.model_copy(update={"spec": spec}), tmp_path)


def job(command: list[str], folder: Path, **changes: Any) -> dict[str, Any]:
    return {
        "command": command,
        "cwd": str(folder),
        "env": {"PATH": os.defpath},
        "seconds": 60.0,
        "memory_bytes": MEMORY,
        "file_bytes": 1 << 20,
        "cores": [],
        "output_bytes": 1000,
        "confinement": Confinement("none", 0, (), 0).as_json(),
        "writable": [],
    } | changes


def supervise(one: dict[str, Any]) -> subprocess.Popen[bytes]:
    """Start the supervisor as the builder does, with its stdin left open."""
    supervisor = subprocess.Popen(
        [sys.executable, "-I", "-m", compile_job.__name__],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert supervisor.stdin is not None
    supervisor.stdin.write(json.dumps(one).encode() + b"\n")
    supervisor.stdin.flush()
    return supervisor


def answer_of(one: dict[str, Any]) -> dict[str, Any]:
    with supervise(one) as supervisor:
        assert supervisor.stdout is not None and supervisor.stdin is not None
        answer: dict[str, Any] = json.loads(supervisor.stdout.readline())
        supervisor.stdin.close()
    return answer


def test_a_job_tells_how_its_command_ended(tmp_path: Path) -> None:
    answer = answer_of(job(["sh", "-c", "echo said; echo meant >&2; exit 3"], tmp_path))
    assert (answer["returncode"], answer["output"]) == (3, "said\nmeant\n")
    assert not answer["truncated"]


def test_a_job_sees_nothing_of_our_environment(tmp_path: Path) -> None:
    answer = answer_of(job(["/usr/bin/env"], tmp_path))
    assert answer["output"] == f"PATH={os.defpath}\n"


def test_a_jobs_output_is_capped(tmp_path: Path) -> None:
    answer = answer_of(job(["sh", "-c", "yes | head -c 3000000"], tmp_path))
    assert (answer["returncode"], len(answer["output"]), answer["truncated"]) == (0, 1000, True)


def test_a_jobs_files_are_capped(tmp_path: Path) -> None:
    answer = answer_of(job(["sh", "-c", "yes | head -c 3000000 > big"], tmp_path))
    assert answer["returncode"] != 0
    assert (tmp_path / "big").stat().st_size <= 1 << 20


def test_a_job_past_its_deadline_is_ended_with_its_children(tmp_path: Path) -> None:
    answer = answer_of(job(["sh", "-c", "sleep 1000 & echo $!; wait"], tmp_path, seconds=0.5))
    assert answer["returncode"] is None and answer["seconds"] >= 0.5
    assert ended(int(answer["output"]))


def test_a_child_that_holds_the_output_does_not_hold_up_the_job(tmp_path: Path) -> None:
    answer = answer_of(job(["sh", "-c", "sleep 1000 & echo $!"], tmp_path))
    assert answer["returncode"] == 0
    assert ended(int(answer["output"]))


def test_the_time_of_a_held_job_begins_when_it_is_let_go(tmp_path: Path) -> None:
    up = tmp_path / "up"
    os.mkfifo(up)
    command = ["sh", "-c", "echo > up; exec sleep 1000"]
    with supervise(job(command, tmp_path, held=True, seconds=0.5)) as supervisor:
        up.read_text()  # blocks until the command runs
        begun = time.monotonic()
        answer = let_go(supervisor)
    assert answer["returncode"] is None
    assert time.monotonic() - begun >= 0.5


def test_a_held_job_runs_once_it_is_let_go(tmp_path: Path) -> None:
    with supervise(job(["sh", "-c", "read line; echo went"], tmp_path, held=True)) as supervisor:
        answer = let_go(supervisor)
    assert (answer["returncode"], answer["output"]) == (0, "went\n")


def test_a_held_job_that_ends_before_it_is_let_go_tells_how(tmp_path: Path) -> None:
    answer = answer_of(job(["sh", "-c", "echo no; exit 3"], tmp_path, held=True))
    assert (answer["returncode"], answer["output"]) == (3, "no\n")


def let_go(supervisor: subprocess.Popen[bytes]) -> dict[str, Any]:
    """Let a held job begin and return its answer."""
    assert supervisor.stdout is not None and supervisor.stdin is not None
    os.write(supervisor.stdin.fileno(), b"\n")
    answer: dict[str, Any] = json.loads(supervisor.stdout.readline())
    supervisor.stdin.close()
    return answer


def test_a_job_ends_when_its_parent_does(tmp_path: Path) -> None:
    told = tmp_path / "told"
    os.mkfifo(told)
    command = ["sh", "-c", "echo $$ > told; exec sleep 1000"]
    script = (
        "import sys, json; sys.path.insert(0, sys.argv[1])\n"
        "from pathlib import Path\n"
        "from kernelarc_guard.build import _run_job\n"
        "from kernelarc_guard.sandbox import Sandbox\n"
        "bare = Sandbox('none', 0, '', (), '')\n"
        "_run_job(json.loads(sys.argv[2]), bare, Path())\n"
    )
    one = json.dumps(job(command, tmp_path))
    with subprocess.Popen([sys.executable, "-c", script, GUARD, one]) as parent:
        compiler = int(told.read_text())  # blocks until the command runs
        parent.send_signal(signal.SIGKILL)
    assert ended(compiler)
