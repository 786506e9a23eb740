"""What clients used: recorded once, summed with what is missing, decided by nothing."""

from pathlib import Path

import pytest
from command_line import Run, command_line
from host_places import opened

from kernelarc_mcp.host.usage import Used
from kernelarc_mcp.report import read_report


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    return command_line(monkeypatch, capsys)


def used(run: str, sent: int | None, got: int | None, cost: float | None) -> Used:
    return Used(run=run, client="claude", input_tokens=sent, output_tokens=got, cost_usd=cost)


def test_sums_name_the_runs_they_are_from_and_an_unknown_price_stays_unknown(folder: Path) -> None:
    with opened(folder) as host:
        assert host.board("ada").agents[0].usage is None
        assert host.record_usage("ada", used("one", 100, 10, None))
        first = host.board("ada").agents[0].usage
        assert first is not None and first.cost_usd is None
        assert host.record_usage("ada", used("two", None, None, 0.25))
        assert host.record_usage("ada", used("three", 5, 1, 0.5))
        assert not host.record_usage("ada", used("three", 5, 1, 0.5))
        rows = {row.agent: row.usage for row in host.board("ada").agents}
    assert rows["bob"] is None
    assert rows["ada"] is not None
    assert rows["ada"].model_dump() == {
        "runs": 3,
        "input_tokens": 105,
        "output_tokens": 11,
        "runs_with_tokens": 2,
        "cost_usd": 0.75,
        "runs_with_cost": 2,
    }


def test_the_command_records_a_run_once_and_status_and_verify_know_it(
    folder: Path, run: Run
) -> None:
    record = ["usage", str(folder), "ada", "--run", "fleet-1", "--client", "codex"]
    status, out, _ = run(*record, "--input-tokens", "7", "--output-tokens", "3")
    assert (status, out) == (0, "ada: run fleet-1 recorded\n")
    assert "nothing changed" in run(*record)[1]
    (ada, bob) = read_report(folder).agents
    assert bob.usage is None and ada.usage is not None
    assert (ada.usage.runs, ada.usage.input_tokens, ada.usage.cost_usd) == (1, 7, None)
    status, out, _ = run("status", str(folder))
    assert status == 0 and "1, 7 + 3, unknown" in out
    assert run("verify", str(folder))[0] == 0


def test_a_run_that_cannot_be_is_refused_by_name(folder: Path, run: Run) -> None:
    status, _, error = run("usage", str(folder), "ada", "--run", "x", "--cost", "-1")
    assert status == 2 and "--cost" in error
    status, _, error = run("usage", str(folder), "eve", "--run", "x")
    assert status == 2 and "'eve'" in error and "ada" in error
