"""An experiment as a user runs it: real server processes, clients, and a scripted guard."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml
from host_places import scripted_guard

from kernelarc_mcp.experiments.file import read_experiment
from kernelarc_mcp.experiments.folder import runs_of
from kernelarc_mcp.experiments.outcome import read_outcome
from kernelarc_mcp.host.verify import verify

CLIENT = Path(__file__).with_name("some_client.py")
ATTEMPTS = 2
PATIENCE = 400.0


@dataclass(frozen=True)
class Done:
    """An experiment that was killed in its second run, and what each command said."""

    file: Path
    place: Path
    partial: dict[str, Any]
    """The report made after the kill."""
    resumed: str
    again: str


def command(file: Path, place: Path, guard: str, *more: str) -> list[str]:
    given = ["experiment", str(file), "--dir", str(place), "--guard-python", guard, *more]
    return [sys.executable, "-m", "kernelarc_mcp", *given]


def said(*arguments: Any) -> str:
    done = subprocess.run(command(*arguments), capture_output=True, text=True, timeout=PATIENCE)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def report(place: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((place / "report" / "experiment.json").read_text())
    return found


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Done]:
    folder = tmp_path_factory.mktemp("experiment")
    guard, place, mark = scripted_guard(folder), folder / "runs", folder / "mark"
    client = ["{python}", str(CLIENT), "{clients}", "{url}", "{agent}", "{seed}", "{attempts}"]
    file = folder / "small.yaml"
    whole = {
        "name": "small",
        "problem": "rmsnorm",
        "attempts": ATTEMPTS,
        "runs": 1,
        "settings": {"canary_rate": 0},
        "arms": [
            {"name": "one", "client": [*client, ""]},
            {"name": "two", "agents": 1, "memory": "bounded", "client": [*client, str(mark)]},
        ],
    }
    file.write_text(yaml.safe_dump(whole))
    process = subprocess.Popen(
        command(file, place, guard),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        deadline = time.monotonic() + PATIENCE
        while not mark.exists():
            assert process.poll() is None and time.monotonic() < deadline, "the second run begins"
            time.sleep(0.05)
    finally:
        # As a power cut ends it: nothing is said to anybody.
        children = descendants(process.pid)
        for pid in [process.pid, *children]:
            os.kill(pid, signal.SIGKILL)
        process.wait()
    said(file, place, guard, "--report")
    partial = report(place)
    resumed = said(file, place, guard)
    again = said(file, place, guard)
    yield Done(file, place, partial, resumed, again)


def descendants(pid: int) -> list[int]:
    """Return the processes that a process started, and theirs."""
    found = []
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        for child in map(int, task.read_text().split()):
            found += [child, *descendants(child)]
    return found


def test_a_partial_experiment_is_reported_as_partial(done: Done) -> None:
    assert not done.partial["complete"]
    one, two = done.partial["arms"]
    assert (one["finished"], two["finished"]) == (1, 0) and two["speedup"] is None
    states = [(o["arm"], o["state"], o["judged"]) for o in done.partial["outcomes"]]
    assert states == [("one", "finished", ATTEMPTS), ("two", "partial", 1)]


def test_a_killed_experiment_goes_on_where_it_was_and_counts_nothing_twice(done: Done) -> None:
    lines = done.resumed.splitlines()
    assert lines[0] == "two 1: goes on after 1, seed 1"
    assert lines[1].startswith("two 1: finished, 2 of 2 attempts, 1.1")
    for run in runs_of(read_experiment(done.file), done.place):
        outcome = read_outcome(run)
        assert (outcome.used, outcome.judged) == (ATTEMPTS, ATTEMPTS)
        assert outcome.verdicts == {"KEEP": 1, "REVERT": 1}
        assert outcome.best() == [1.0, outcome.speedup, outcome.speedup]
        assert verify(run.campaign) == []


def test_what_is_finished_is_not_run_again(done: Done) -> None:
    assert "begins" not in done.again and "goes on" not in done.again
    assert done.again.startswith("one: 1 of 1 runs, 1.1")


def test_runs_share_one_cache_of_builds(done: Done) -> None:
    folders = {run.campaign / "cache" for run in runs_of(read_experiment(done.file), done.place)}
    assert {folder.resolve() for folder in folders} == {(done.place / "builds").resolve()}


def test_the_report_is_a_table_a_page_that_stands_alone_and_data(done: Done) -> None:
    found = report(done.place)
    assert found["complete"] and [pair["pairs"] for pair in found["pairs"]] == [1]
    markdown = (done.place / "report" / "experiment.md").read_text()
    assert "2 of 2 runs are finished. 2 attempts a run" in markdown
    assert "| two | 1 | bounded 16 | on | on | on | 1 of 1 | 1.1" in markdown
    page = (done.place / "report" / "experiment.html").read_text()
    assert 'id="curves"' in page and "default-src 'none'" in page
    assert "http://" not in page.partition("<script>")[0]


def test_records_are_measured_again_in_one_sitting_and_the_report_says_so(done: Done) -> None:
    guard = str(done.file.parent / "scripted_guard")
    lines = said(done.file, done.place, guard, "--anew").splitlines()
    assert lines[0].endswith("x the seed") and " s001: 1.1" in lines[0]
    found = report(done.place)
    assert found["measured_anew"] and found["measured_at"]


def test_a_wrong_file_is_one_line_and_status_2(tmp_path: Path) -> None:
    file = tmp_path / "wrong.yaml"
    file.write_text("name: x\n")
    ended = subprocess.run(
        command(file, tmp_path / "runs", sys.executable), capture_output=True, text=True, timeout=60
    )
    assert ended.returncode == 2
    assert ended.stderr == f"kernelarc-mcp: {file}: problem: Field required\n"
    assert not (tmp_path / "runs").exists()
