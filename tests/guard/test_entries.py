"""Builds that are handed over from cache to cache, and the slot that makes them, with a real compiler."""

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from filelock import FileLock
from guard_process import DLPACK, SCHEDULE, cpp, problem

from kernelarc_guard import built_with, entries, recipes
from kernelarc_guard.build import build
from kernelarc_guard.cache_limit import LOCKS
from kernelarc_guard.cuda.nvcc import Nvcc
from kernelarc_guard.entries import HANDED, NATIVE, Artefact, put, taken
from kernelarc_guard.identity import identity
from kernelarc_guard.prepare import BuildEnd, BuildOrder, Prepare
from kernelarc_guard.sandbox import find_sandbox
from kernelarc_guard.solution import Solution, make_solution
from kernelarc_guard.toolchain import find_toolchain

SANDBOX = find_sandbox()
REFUSED = DLPACK.replace("return 0;", 'ptrace(0); system("true"); return 0;')
BROKEN = DLPACK.replace("return 0;", "return zero;")


def solution(source: str = DLPACK) -> Solution:
    return make_solution(cpp(source))


def order(cache: Path, source: str = DLPACK) -> BuildOrder:
    body = {"id": "s1", "cache_dir": str(cache), "schedule": SCHEDULE}
    body |= {"definition": problem()["definition"], "candidate": cpp(source)}
    return BuildOrder(request=Prepare.model_validate(body))


@contextmanager
def slot(*arguments: str) -> Iterator["subprocess.Popen[bytes]"]:
    """Yield a real build slot, which ends when its stdin closes."""
    command = [sys.executable, "-I", "-m", "kernelarc_guard.build_slot", *arguments]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        yield process
        assert process.stdin is not None
        process.stdin.close()
        assert process.wait(60) == 0


def ended(process: "subprocess.Popen[bytes]", line: bytes) -> BuildEnd:
    assert process.stdin is not None and process.stdout is not None
    process.stdin.write(line + b"\n")
    process.stdin.flush()
    return BuildEnd.model_validate_json(process.stdout.readline())


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Artefact]:
    """A cache with one entry, made by a slot, and what is handed over of it; other orders leave nothing."""
    cache = tmp_path_factory.mktemp("there")
    with slot() as process:
        assert ended(process, b"{}").why.startswith("order: request: ")
        for source, why in ((BROKEN, "kernel.cpp:7: "), (REFUSED, "the policy refuses it")):
            end = ended(process, order(cache, source).model_dump_json().encode())
            assert not end.key and end.why.startswith(why), end
        end = ended(process, order(cache).model_dump_json().encode())
        assert not end.why and end.seconds > 0
    assert [one.name for one in (cache / NATIVE).iterdir()] == [end.key]
    return cache, taken(cache, end.key, solution().digest, "far:builder0")


def test_a_judgement_finds_what_was_handed_over_and_compiles_nothing(
    made: tuple[Path, Artefact], tmp_path: Path
) -> None:
    there, artefact = made
    assert put(tmp_path, artefact, solution())
    built = build(solution(), tmp_path, seconds=60, memory_bytes=4 << 30, sandbox=SANDBOX)
    assert built.cached and built.entry.parent.name == artefact.key
    assert built.entry.read_bytes() == (there / NATIVE / artefact.key / "kernel.so").read_bytes()
    assert (built.root / "kernel.cpp").read_text() == DLPACK
    said = json.loads((built.entry.parent / HANDED).read_text())
    assert said == {"by": "far:builder0", "sha256": artefact.sha256}


def test_what_is_there_or_being_built_is_left_as_it_is(
    made: tuple[Path, Artefact], tmp_path: Path
) -> None:
    there, artefact = made
    assert not put(there, artefact, solution())
    assert not (there / NATIVE / artefact.key / HANDED).exists()
    (tmp_path / LOCKS).mkdir()
    with FileLock(tmp_path / LOCKS / f"{artefact.key}.lock"):
        assert not put(tmp_path, artefact, solution())
    assert put(tmp_path, artefact, solution())


def test_what_is_damaged_too_large_or_of_another_solution_leaves_nothing(
    made: tuple[Path, Artefact], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    there, artefact = made
    wrong = [
        replace(artefact, binary=artefact.binary + b"\0"),
        replace(artefact, messages=b"[{]"),
        replace(artefact, key=f"../../{artefact.key[6:]}"),
        replace(artefact, solution="0" * 64),
    ]
    for one in wrong:
        with pytest.raises(ValueError):
            put(tmp_path, one, solution())
    monkeypatch.setattr(entries, "MOST_HANDED", 100)
    for hand in (
        lambda: put(tmp_path, artefact, solution()),
        lambda: taken(there, artefact.key, artefact.solution, ""),
    ):
        with pytest.raises(ValueError, match="more than"):
            hand()
    monkeypatch.undo()
    assert not list(tmp_path.iterdir())
    # A link is no binary, wherever it points.
    aside = tmp_path / NATIVE / artefact.key
    aside.mkdir(parents=True)
    (aside / "kernel.so").symlink_to(there / NATIVE / artefact.key / "kernel.so")
    with pytest.raises(OSError):
        taken(tmp_path, artefact.key, artefact.solution, "")


def test_a_builder_says_all_that_decides_what_it_makes_and_a_device_what_its_builds_depend_on() -> (
    None
):
    builder, device = identity(built_with.BUILDER), identity("cpu")
    said, asked = builder["built_with"], device["built_with"]
    assert isinstance(said, dict) and isinstance(asked, dict)
    assert {"machine", "C++ compiler", "C++ headers", "processor"} == set(asked)
    assert asked.items() <= said.items()
    tools, own = builder["toolchain"], device["toolchain"]
    assert isinstance(tools, dict) and isinstance(own, dict) and own.items() <= tools.items()


def test_a_gpus_build_is_the_same_on_every_processor_unless_a_flag_asks_for_its_own(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    own = find_toolchain()
    assert own is not None
    monkeypatch.setattr(recipes, "find_nvcc", lambda: Nvcc("nvcc", "/", "release 13.0"))

    def identity_on(processor: str, *flags: str) -> str:
        monkeypatch.setattr(recipes, "find_toolchain", lambda: replace(own, processor=processor))
        body = cpp("// nothing")
        body["spec"] |= {"languages": ["cuda"], "compile_options": {"cflags": list(flags)}}
        return recipes.gpu_recipe(make_solution(body), "90a").identity

    assert identity_on("one") == identity_on("another")
    native = "-march=native"
    assert identity_on("one", native) == identity_on("one", native) != identity_on("two", native)
