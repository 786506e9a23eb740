"""A language that is not installed is named, with what would bring it."""

from pathlib import Path

import pytest

from kernelarc_guard import languages
from kernelarc_guard.build import BuildFailed, build
from kernelarc_guard.sandbox import find_sandbox
from kernelarc_guard.solution import make_solution


def test_an_absent_language_fails_the_build_with_its_package(tmp_path: Path) -> None:
    solution = make_solution(
        {
            "name": "tiles",
            "definition": "any",
            "spec": {"languages": ["cute_dsl"], "entry_point": "kernel.py::run"},
            "sources": [{"path": "kernel.py", "content": "def run(x):\n    return x\n"}],
        }
    )
    with pytest.raises(BuildFailed) as failure:
        build(solution, tmp_path, seconds=5, memory_bytes=1 << 30, sandbox=find_sandbox())
    assert failure.value.reason == "build_failed"
    assert "cute_dsl (package nvidia-cutlass-dsl, module cutlass)" in failure.value.detail


def test_only_what_is_absent_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(languages, "installed", lambda module: module in {"triton", "cupy"})
    assert languages.absent(["python", "triton"]) == ""
    told = languages.absent(["triton", "tilelang"])
    assert "environment: tilelang (package tilelang, module tilelang);" in told
    assert told.endswith("installed are triton, cupy")


def test_a_module_below_a_missing_package_is_missing() -> None:
    assert not languages.installed("no_such_package.below")
    assert languages.installed("json")
