"""`evaluate` with the real guard: one JSON document and status 0 for any verdict."""

import json
import os
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
from server_campaigns import DEFINITION, WORKLOADS
from server_process import COMMAND

from kernelarc_mcp.cli.told import shortened

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


def test_the_first_kernel_of_the_documentation_compiles_and_is_right(tmp_path: Path) -> None:
    page = (Path(__file__).parents[2] / "docs" / "first-kernel.md").read_text()
    for language, name in (("cpp", "kernel.cpp"), ("python", "kernel.py")):
        (code,) = re.findall(rf"```{language}\n(.*?)```", page, re.DOTALL)
        (tmp_path / name).write_text(code)
        checked = _check(tmp_path, "rmsnorm", name)
        assert checked.returncode == 0, checked.stdout + checked.stderr
        assert "right on every workload; nothing was timed" in checked.stdout
        assert "calibrating" not in checked.stderr and "max_atol" in checked.stdout
        rows = [line for line in checked.stdout.splitlines() if " passed " in line]
        assert rows and all(re.search(r" own | values", row) for row in rows), checked.stdout


def test_a_check_says_what_is_wrong_and_ends_with_status_1(folder: Path) -> None:
    checked = _check(folder, str(folder), "wrong.py", "--json")
    document = json.loads(checked.stdout)
    assert checked.returncode == 1, checked.stderr
    assert (document["right"], document["reason"]) == (False, "wrong_result")
    assert all(row["record_us"] is None for row in document["workloads"])
    empty = _check(folder, str(folder), "empty.py")
    assert empty.returncode == 1 and "REJECT envelope_bad_text" in empty.stdout
    assert "workload" not in empty.stdout, "a table of nothing"
    both = _check(folder, str(folder), "fast.py", "--fresh")
    assert both.returncode == 2 and "--check: nothing is timed" in both.stderr


def test_a_crash_is_told_without_the_frames_of_the_interpreter() -> None:
    frames = [f'  Binary file "libpython3.11.so", at Objects/call.c:{n}' for n in range(24)]
    detail = "\n".join(["died of SIGSEGV", *frames, '  File "kernel.py", line 3 in run'])
    assert shortened(detail) == (
        'died of SIGSEGV\n  File "kernel.py", line 3 in run\n[24 more lines with --json]'
    )
    assert shortened("one line") == "one line"


def _check(
    folder: Path, problem: str, solution: str, *more: str
) -> subprocess.CompletedProcess[str]:
    named = ["--problem", problem, "--solution", str(folder / solution), "--check", *more]
    return subprocess.run(
        [*COMMAND, "evaluate", *named],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        env={**os.environ, "XDG_CACHE_HOME": str(folder / "cache"), "COLUMNS": "200"},
        timeout=300,
    )
