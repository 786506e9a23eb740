"""`score` and `profile` on the command line, with a guard that answers from a script."""

import json
from pathlib import Path

import pytest
from command_line import Run, command_line
from host_places import (
    judge_all,
    make_campaign_with_seed,
    make_problem,
    opened,
    planned,
    scripted_guard,
)

from kernelarc_mcp.host.campaign import PROBLEM


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Run:
    """Return a function that runs the command line with a cache of its own."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return command_line(monkeypatch, capsys)


@pytest.fixture(scope="module")
def guard(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Return a guard that answers from a script, inquiries too."""
    return scripted_guard(tmp_path_factory.mktemp("guard"), "scripted_profiler")


@pytest.fixture(scope="module")
def campaign(tmp_path_factory: pytest.TempPathFactory, guard: str) -> Path:
    """Return a campaign with a record, a slower submission and a measured reference."""
    folder = tmp_path_factory.mktemp("judged") / "c"
    make_campaign_with_seed(folder, canary_rate=0.0)
    with opened(folder) as host:
        for number, plan in enumerate(("gain:40", "gain:-30"), start=1):
            host.submit("ada", source=planned(number, plan), summary=plan)
    judge_all(folder, guard)
    return folder


def test_a_campaigns_record_is_scored_beside_the_reference_and_the_seed(
    run: Run, campaign: Path, guard: str
) -> None:
    status, out, _ = run("score", str(campaign), "--guard-python", guard, "--json")
    assert status == 0
    report = json.loads(out)
    assert (report["solution"], report["record"]) == ("s001", "seed")
    small = report["workloads"][0]
    assert small["over_record"] == pytest.approx(1.49, abs=0.02)
    assert small["over_reference"] == pytest.approx(1.49, abs=0.02), "as fast as the seed"
    assert small["roofline"]["limited_by"] == "memory"
    # A guard's rulers that saw more than the data sheet go before it.
    assert "rulers of the calibration" in small["roofline"]["source"]
    assert small["baseline"]["source"] == "the reference, measured"
    assert 0.5 < report["score"] < 1
    other = ("--submission", "s002", "--guard-python", guard, "--json")
    slower = json.loads(run("score", str(campaign), *other)[1])
    assert slower["record"] == "s001" and slower["over_record"] < 0.8


def test_published_bounds_come_from_a_file_with_their_source_in_the_table(
    run: Run, campaign: Path, guard: str, tmp_path: Path
) -> None:
    file = tmp_path / "bounds.json"
    entries = [{"uuid": uuid, "t_sol_ms": 0.1, "t_b_ms": 0.7} for uuid in ("w8", "w9")]
    head = {"device": "NVIDIA H200", "source": "a board", "date": "2026-08-11"}
    file.write_text(json.dumps({**head, "workloads": entries}))
    options = ("--bounds", str(file), "--guard-python", guard, "--target", "0.5")
    status, out, _ = run("score", str(campaign), *options)
    assert status == 0
    assert "published bound of NVIDIA H200: a board, 2026-08-11" in out
    assert "not comparable with published ones" in out
    assert "score 0.5 is T_k/T_b = 1.0000" in out


def test_bounds_alone_need_no_solution(run: Run, campaign: Path, guard: str) -> None:
    problem = ("--problem", str(campaign / PROBLEM), "--guard-python", guard)
    status, out, _ = run("score", *problem, "--json")
    assert status == 0
    report = json.loads(out)
    assert report["problem"] == make_problem().definition.name
    assert report["score"] is None and report["workloads"][0]["roofline"]["milliseconds"] > 0


def test_a_solution_is_measured_beside_the_reference(
    run: Run, campaign: Path, guard: str, tmp_path: Path
) -> None:
    kernel = tmp_path / "kernel.py"
    kernel.write_text(planned(1, "gain:20"))
    problem = ("--problem", str(campaign / PROBLEM), "--guard-python", guard)
    status, out, err = run("score", *problem, "--solution", str(kernel), "--json")
    assert status == 0, err
    assert json.loads(out)["over_reference"] == pytest.approx(1.22, abs=0.02)


def test_profile_prints_the_whole_profile_and_where_the_reports_are(
    run: Run, campaign: Path, guard: str, tmp_path: Path
) -> None:
    kernel = tmp_path / "kernel.py"
    kernel.write_text(planned(1, "gain:20"))
    problem = ("--problem", str(campaign / PROBLEM), "--guard-python", guard)
    more = ("--solution", str(kernel), "--out", str(tmp_path / "kept"))
    status, out, _ = run("profile", *problem, *more)
    assert status == 0
    assert out.startswith("bandwidth-bound: ") and "metrics.csv" in out
    assert "a call took 818.7 us just now" in out, "measured where nobody says what a call takes"
    assert (tmp_path / "kept" / "metrics.csv").is_file()
    again = ("--solution", str(kernel), "--out", str(tmp_path / "again"), "--call-us", "7")
    assert "a call took 7.0 us as given" in run("profile", *problem, *again)[1]


def test_a_campaigns_submissions_are_profiled_by_their_tickets(
    run: Run, campaign: Path, guard: str, tmp_path: Path
) -> None:
    rows = (campaign / "campaign.db").read_bytes()
    shown = run("profile", str(campaign), "--guard-python", guard, "--out", str(tmp_path / "a"))[1]
    assert "us when judged" in shown and "record -> candidate" not in shown
    other = ("--submission", "s002", "--guard-python", guard, "--out", str(tmp_path / "b"))
    assert "record -> candidate" in run("profile", str(campaign), *other)[1]
    assert (campaign / "campaign.db").read_bytes() == rows


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("score",), "give --problem, or the directory"),
        (("score", "x", "--problem", "rmsnorm"), "give --problem, or the directory"),
        (("score", "x", "--solution", "k.py"), "go with --problem"),
        (("score", "--problem", "rmsnorm", "--submission", "s001"), "goes with the directory"),
        (("score", "--problem", "rmsnorm", "--record", "k.py"), "--record goes with --solution"),
        (("score", "nowhere"), "no campaign here"),
        (("score", "--problem", "rmsnorm", "--bounds", "gone.json"), "gone.json: no such file"),
        (("score", "--problem", "rmsnorm", "--solution", "gone.py"), "gone.py: no such file"),
        (("profile", "--problem", "rmsnorm", "--solution", "gone.py"), "gone.py: no such file"),
        (("profile", "--problem", "rmsnorm"), "give --problem and --solution, or the directory"),
        (("profile", "runs/rms", "--problem", "rmsnorm"), "go without a campaign"),
    ],
)
def test_a_mistake_is_one_line_and_a_status(
    run: Run, arguments: tuple[str, ...], said: str
) -> None:
    status, out, err = run(*arguments)
    assert (status, out) == (2, "")
    (line,) = err.strip().splitlines()
    assert line.startswith("kernelarc-mcp: ") and said in line
