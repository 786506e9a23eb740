"""`evaluate` with the real guard: one JSON document and status 0 for any verdict."""

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
from server_campaigns import DEFINITION, WORKLOADS
from server_process import COMMAND

SLOW = "import time\n\n\ndef run(x):\n    time.sleep(0.0005)\n    return x * 2\n"
FAST = "def run(x):\n    return x + x\n"
WRONG = "def run(x):\n    return x * 3\n"
BROKEN = '#include "no_such_header.h"\nint run();\n'


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a problem folder with solutions beside it."""
    (tmp_path / "definition.json").write_text(json.dumps(DEFINITION))
    lines = [json.dumps(workload) + "\n" for workload in WORKLOADS]
    (tmp_path / "workload.jsonl").write_text("".join(lines))
    for name, text in (
        ("slow.py", SLOW),
        ("fast.py", FAST),
        ("wrong.py", WRONG),
        ("broken.cpp", BROKEN),
        ("empty.py", " \n"),
    ):
        (tmp_path / name).write_text(text)
    return tmp_path


def _evaluate(folder: Path, solution: str, *more: str) -> subprocess.CompletedProcess[str]:
    options = ["--problem", str(folder), "--solution", str(folder / solution), *more]
    return subprocess.run(
        [*COMMAND, "evaluate", *options, "--record", str(folder / "slow.py"), "--json"],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        env={**os.environ, "XDG_CACHE_HOME": str(folder / "cache")},
        timeout=300,
    )


def _document(folder: Path, solution: str) -> dict[str, Any]:
    ended = _evaluate(folder, solution)
    assert ended.returncode == 0, ended.stderr
    document: dict[str, Any] = json.loads(ended.stdout)
    return document


def test_a_faster_solution_is_confirmed_and_the_calibration_is_kept_for_the_next(
    folder: Path,
) -> None:
    first = _document(folder, "fast.py")
    assert (first["verdict"], first["reason"], first["stage"]) == ("KEEP", "confirmed", "timing")
    assert first["speedup"] > 1.5
    assert first["lower"] > 1
    assert not first["calibration_cached"]
    (workload,) = first["workloads"]
    assert workload["uuid"] == "small"
    assert workload["candidate_us"] < workload["record_us"]
    wrong = _document(folder, "wrong.py")
    assert (wrong["verdict"], wrong["reason"]) == ("REVERT", "wrong_result")
    assert wrong["stages"]["timing"]["state"] == "not evaluated"
    assert wrong["calibration_cached"]
    assert wrong["calibration"] == first["calibration"]


def test_broken_and_empty_solutions_have_verdicts_too(folder: Path) -> None:
    ended = _evaluate(folder, "broken.cpp")
    assert ended.returncode == 0, ended.stderr
    steps = ended.stderr.splitlines()
    assert steps[0] == "policy" and "device held" in steps and steps[-1] == "build", steps
    broken = json.loads(ended.stdout)
    assert (broken["verdict"], broken["reason"]) == ("REJECT", "build_failed")
    assert broken["build"][0]["file"] == "broken.cpp"
    empty = _document(folder, "empty.py")
    assert (empty["verdict"], empty["stage"]) == ("REJECT", "envelope")


def test_what_cannot_be_judged_is_one_line_and_no_verdict(folder: Path) -> None:
    guard = folder / "no-guard"
    guard.write_text("#!/bin/sh\nexit 3\n")
    guard.chmod(0o755)
    for ended in (
        _evaluate(folder, "gone.py"),
        _evaluate(folder, "fast.py", "--workloads", "gone.jsonl"),
        _evaluate(folder, "fast.py", "--guard-python", str(guard)),
        _evaluate(folder, "fast.py", "--device", "abacus:0"),
    ):
        assert ended.returncode == 2
        assert ended.stdout == ""
        line = ended.stderr.strip().splitlines()[-1]
        assert line.startswith("kernelarc-mcp: ")
