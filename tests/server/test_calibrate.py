"""`calibrate`, what `doctor` says of stored calibrations, and recorded judgements decided again."""

import json
import os
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from command_line import Run, command_line
from forging import row_of
from host_places import make_problem, scripted_guard
from server_campaigns import DEFINITION, WORKLOADS

from kernelarc_guard.decide import Calibration
from kernelarc_guard.problem import read_problem
from kernelarc_guard.protocol import Progress
from kernelarc_guard.solution import reference_solution
from kernelarc_mcp.cache import calibration_cache
from kernelarc_mcp.calibrations import CalibrationCache, StoredCalibration
from kernelarc_mcp.cli.options import record_of
from kernelarc_mcp.cli.plot import WIDTH, strip_plot
from kernelarc_mcp.cli.stages import step_of
from kernelarc_mcp.data import data_dir
from kernelarc_mcp.host.election import Seat
from kernelarc_mcp.machine import describe_machine
from kernelarc_mcp.noise import warnings

PROBLEM = make_problem()
RECORD = reference_solution(PROBLEM.definition)


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Run:
    """Return a function that runs the command line with a cache of its own."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return command_line(monkeypatch, capsys)


@pytest.fixture
def problem(tmp_path: Path) -> Path:
    """Return a problem folder."""
    folder = tmp_path / "doubling"
    folder.mkdir()
    (folder / "definition.json").write_text(json.dumps(DEFINITION))
    lines = [json.dumps(workload) + "\n" for workload in WORKLOADS]
    (folder / "workload.jsonl").write_text("".join(lines))
    return folder


def calibration(age: timedelta, nurseries: int, **changes: object) -> Calibration:
    values = [0.1, -0.1] * nurseries
    return Calibration.model_validate(
        {
            "device": "cpu",
            "problem": PROBLEM.digest,
            "at": (datetime.now(UTC) - age).isoformat(),
            "pairs": len(values),
            "blocks_screen": 1,
            "blocks_confirm": 1,
            "sd_screen": 0.1,
            "sd_confirm": 0.2,
            "delta": 0.3,
            "mean": 0.0,
            "values": values,
            "nurseries": [2] * nurseries,
            "rulers": {
                "empty_window_ns": 9_000,
                "write_bytes_per_second": 2e10,
                "copy_bytes_per_second": 1e10,
            },
            **changes,
        }
    )


@pytest.mark.parametrize(
    ("hours", "nurseries", "believed"),
    [(23, 1, True), (25, 1, False), (25, 3, True), (24 * 6, 12, True), (24 * 8, 12, False)],
)
def test_a_thorough_calibration_is_believed_for_a_week_and_a_short_one_for_a_day(
    tmp_path: Path, hours: int, nurseries: int, believed: bool
) -> None:
    cache = CalibrationCache(tmp_path)
    stored = calibration(timedelta(hours=hours), nurseries)
    cache.store(PROBLEM, RECORD, stored)
    assert cache.load("cpu", PROBLEM, RECORD) == (stored if believed else None)
    assert CalibrationCache(tmp_path, fresh=True).load("cpu", PROBLEM, RECORD) is None
    assert [one.calibration for one in cache.stored()] == [stored]


def test_a_short_calibration_does_not_replace_a_thorough_one(tmp_path: Path) -> None:
    cache = CalibrationCache(tmp_path)
    thorough = calibration(timedelta(days=2), 3)
    cache.store(PROBLEM, RECORD, thorough)
    cache.store(PROBLEM, RECORD, calibration(timedelta(), 1))
    assert cache.load("cpu", PROBLEM, RECORD) == thorough


def test_a_calibration_without_rulers_is_not_believed(tmp_path: Path) -> None:
    cache = CalibrationCache(tmp_path)
    cache.store(PROBLEM, RECORD, calibration(timedelta(), 3, rulers=None))
    assert cache.load("cpu", PROBLEM, RECORD) is None


def test_another_machine_an_old_one_and_a_bias_are_warned_of(tmp_path: Path) -> None:
    now, here = datetime.now(UTC), describe_machine()
    assert warnings(calibration(timedelta(days=1), 3), here, now) == []
    old = calibration(timedelta(days=8, hours=1), 3, biased=True)
    said = " ".join(warnings(old, "another machine", now))
    assert "8 days old" in said and "machine changed" in said and "biased" in said
    coarse = calibration(timedelta(), 3, resolution=48.0)
    assert "gains above about 48 %" in " ".join(warnings(coarse, here, now))
    cache = CalibrationCache(tmp_path)
    cache.store(PROBLEM, RECORD, calibration(timedelta(), 3))
    (file,) = tmp_path.glob("*.json")
    file.write_text(file.read_text().replace(json.dumps(here), '"another machine"'))
    assert cache.load("cpu", PROBLEM, RECORD) is None
    assert cache.stored()[0].machine == "another machine"


def test_calibrate_prints_stores_and_doctor_lists_it(
    run: Run, problem: Path, tmp_path: Path
) -> None:
    guard = scripted_guard(tmp_path)
    options = ("--problem", str(problem), "--nurseries", "3", "--pairs", "4")
    status, out, _ = run("calibrate", *options, "--guard-python", guard)
    assert status == 0
    for words in (
        "12 in 3 nurseries",
        "shared bias",
        "delta",
        "smallest gain",
        "nursery",
        "M",
        "GCC 12",
    ):
        assert words in out
    document = json.loads(run("calibrate", *options, "--guard-python", guard, "--json")[1])
    assert document["calibration"]["nurseries"] == [4, 4, 4]
    found = json.loads(run("doctor", "--guard-python", guard, "--json")[1])
    # The scripted guard dates its calibrations at the beginning of 2026.
    (none, older) = [one for one in found if "calibration" in one["name"]]
    assert none["state"] == "warning" and "none in use" in none["detail"]
    assert older["state"] == "ok"
    assert older["detail"].startswith("1 older calibration, not used any more: ")
    (file,) = calibration_cache().glob("*.json")
    stored = StoredCalibration.model_validate_json(file.read_bytes())
    young = stored.calibration.model_copy(update={"at": datetime.now(UTC).isoformat()})
    file.write_text(stored.model_copy(update={"calibration": young}).model_dump_json())
    found = json.loads(run("doctor", "--guard-python", guard, "--json")[1])
    (line,) = [one for one in found if "calibration" in one["name"]]
    assert "12 pairs in 3 nurseries" in line["detail"] and "0 hours old" in line["detail"]
    assert f"record {document['record']} " in line["detail"], "which one it is can be told"
    assert document["calibration"]["problem"][:12] in line["detail"]
    assert "empty window 10.0 us, writes 20.0 GB/s, copies 10.0 GB/s" in line["detail"]


def test_doctor_calls_only_a_calibration_ok_that_evaluate_would_use(
    run: Run, tmp_path: Path
) -> None:
    problem = read_problem(data_dir("kernels") / "rmsnorm")
    own, other = record_of(None, problem), reference_solution(problem.definition)
    fewer = problem.model_copy(update={"workloads": problem.workloads[:1]})
    cache = CalibrationCache(calibration_cache())
    for of, record in ((problem, own), (problem, other), (fewer, own)):
        cache.store(of, record, calibration(timedelta(), 3, problem=of.digest))
    guard = scripted_guard(tmp_path)
    lines = [
        (one["state"], one["detail"])
        for one in json.loads(run("doctor", "--guard-python", guard, "--json")[1])
        if one["name"].startswith("calibration")
    ]
    assert sorted(state for state, _ in lines) == ["ok", "warning", "warning"]
    for state, detail in lines:
        used = problem.digest[:12] in detail and own.digest[:12] in detail.split(";")[0]
        assert (state == "ok") == used, detail
        assert used or "`evaluate --problem rmsnorm` does not use it" in detail


def test_calibrate_needs_a_problem_or_a_campaign(run: Run, tmp_path: Path) -> None:
    for arguments in ((), (str(tmp_path), "--problem", "rmsnorm"), (str(tmp_path),)):
        status, out, err = run("calibrate", *arguments)
        assert (status, out) == (2, "") and err.startswith("kernelarc-mcp: ")


def test_a_campaign_is_calibrated_again_by_hand(run: Run, problem: Path, tmp_path: Path) -> None:
    guard, folder = scripted_guard(tmp_path), str(tmp_path / "made")
    assert run("new", folder, "--problem", str(problem), "--nurseries", "2")[0] == 0
    again = ("calibrate", folder, "--nurseries", "3", "--pairs", "2", "--guard-python", guard)
    document = json.loads(run(*again, "--json")[1])
    assert document["calibration"]["nurseries"] == [2, 2, 2]
    report = json.loads(run("status", folder, "--json")[1])
    assert report["calibration_view"]["nurseries"] == 3
    assert "days old" in report["calibration_view"]["warnings"][0]
    assert "Calibration of 2026" in run("status", folder)[1]
    assert run("verify", folder)[0] == 0


def test_a_served_campaign_says_what_it_will_measure_and_that_nothing_is_judged_meanwhile(
    run: Run, problem: Path, tmp_path: Path
) -> None:
    guard, folder = scripted_guard(tmp_path), tmp_path / "made"
    assert run("new", str(folder), "--problem", str(problem), "--nurseries", "2")[0] == 0
    again = ("calibrate", str(folder), "--guard-python", guard)
    seat = Seat(folder)
    seat.take()
    status, out, _ = run(*again)
    assert status == 0 and "12 nurseries of 8 pairs (how long that takes is not known yet)" in out
    assert "Nothing is judged meanwhile" in out and "--nurseries and --pairs ask for fewer" in out
    seat.release()
    assert run(*again, "--nurseries", "1", "--pairs", "2")[0] == 0
    seat.take()
    document = json.loads(run(*again, "--nurseries", "1", "--pairs", "6", "--json")[1])
    seat.release()
    assert (document["asked"], document["nurseries"], document["pairs"]) == (True, 1, 6)
    assert (
        "1 nursery of 6 pairs (less than a minute, by what the last one took)" in document["said"]
    )
    lease = json.loads(row_of(folder, "calibrated").body)["result"]["lease"]
    took = (lease["to_ns"] - lease["from_ns"]) / 1e9
    assert document["about_seconds"] == pytest.approx(3 * took)


def test_the_plot_has_a_row_for_each_nursery_and_zero_in_the_middle() -> None:
    head, first, second = strip_plot([1.0, -1.0, 0.5, 0.5], [2, 2])
    assert "nursery" in head
    assert first.index("M") == 10 + WIDTH // 2
    assert second[10 + WIDTH // 2] == "|" and "M" in second
    assert first.endswith("+0.000 %") and second.endswith("+0.500 %")


def test_recorded_judgements_are_decided_again(run: Run, tmp_path: Path) -> None:
    empty = tmp_path / "pairs.jsonl"
    empty.write_text("")
    assert run("verify", "--pairs", str(empty))[0] == 0
    empty.write_text("{}\n")
    status, _, err = run("verify", "--pairs", str(empty))
    assert status == 2 and "line 1" in err
    assert run("verify", "--pairs", str(empty), str(tmp_path))[0] == 2
    assert run("verify")[0] == 2
    assert os.environ["XDG_CACHE_HOME"] == str(tmp_path / "cache")


def test_a_line_is_shown_for_each_step_and_not_for_each_pair() -> None:
    told = ["waiting for the device", "device held"]
    told += [f"calibrating, nursery {n} of 2, pair {k} of 3" for n in (1, 2) for k in (1, 2, 3)]
    told += ["pair 1: a block is measured", "pair 2: a block is measured"]
    steps = [
        step_of(Progress(id="x", stage="timing", done=1, of=2, message=message)) for message in told
    ]
    assert list(dict.fromkeys(steps)) == [
        "waiting for the device",
        "device held",
        "calibrating, nursery 1 of 2",
        "calibrating, nursery 2 of 2",
        "timing",
    ]
