"""A whole campaign as on a GPU, its guard scripted: capped, packed, verified elsewhere, timed."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from host_places import scripted_guard

from benchmarks.campaign_backup import TooLarge, backup, restore
from benchmarks.campaign_time import read_events, spent
from kernelarc_mcp.cli.verify import check
from kernelarc_mcp.report import read_report

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Return what a campaign of two agents with three attempts each left behind."""
    place = tmp_path_factory.mktemp("campaign")
    command = [sys.executable, "-m", "benchmarks.gpu_campaign", "--out", str(place / "out")]
    # Larger workloads than these could not be done in the time that the scripted guard makes up.
    command += ["--attempts", "3", "--seconds", "600", "--workloads", "workload.jsonl"]
    done = subprocess.run(
        command,
        cwd=ROOT,
        env={**os.environ, "KERNELARC_GUARD_PYTHON": scripted_guard(place)},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "verify: all agree" in done.stdout
    yield place / "out"


def test_two_agents_spend_their_attempts_on_kernels_for_a_gpu(out: Path) -> None:
    report = read_report(out / "campaign")
    assert report.attempts_used == 6
    assert {one.dsl for one in report.submissions} <= {"triton", "cuda", "torch"}
    assert {agent.attempts_left for agent in report.agents} == {0}


def test_a_backup_verifies_elsewhere(out: Path, tmp_path: Path) -> None:
    moved = restore(out / "campaign.tar.gz", tmp_path)
    assert check(moved) == []
    assert len(read_events(moved)) == len(read_events(out / "campaign"))
    assert not (moved / "cache").exists()


def test_a_backup_that_is_too_large_is_named(out: Path, tmp_path: Path) -> None:
    with pytest.raises(TooLarge, match="at most 100"):
        backup(out / "campaign", tmp_path / "small.tar.gz", most_bytes=100)


def test_the_parts_of_the_time_add_up_to_the_whole(out: Path) -> None:
    found = spent(read_events(out / "campaign"))
    assert found.settled == 6
    assert sum(found.verdicts.values()) == sum(found.reasons.values()) == 6
    # The scripted guard makes up its seconds: they may overlap, but nothing is lost.
    assert sum(part.seconds for part in found.parts) >= 0.9 * found.wall
    numbers = json.loads((out / "campaign_time.json").read_text())
    assert numbers["verified"] and numbers["settled"] == 6
    assert "verdicts in" in (out / "campaign_time.md").read_text()


def test_the_campaign_that_ran_on_an_h200_verifies_here(tmp_path: Path) -> None:
    folder = restore(ROOT / "docs" / "measurements" / "h200_campaign.tar.gz", tmp_path)
    assert check(folder) == []
    found, numbers = spent(read_events(folder)), ROOT / "docs/measurements/h200_campaign.json"
    assert found.verdicts == {"KEEP": 3, "ACCEPT": 3, "REJECT": 9, "REVERT": 25}
    assert found.measuring / found.wall == pytest.approx(0.688, abs=0.001)
    known = json.loads(numbers.read_text())["parts"]
    assert [(one["what"], one["count"]) for one in known] == [
        (p.what, p.count) for p in found.parts
    ]
    assert [one["seconds"] for one in known] == pytest.approx([p.seconds for p in found.parts])
