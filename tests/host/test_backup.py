"""Backups: made while agents work, verified, and used elsewhere."""

import shutil
import threading
from pathlib import Path

import pytest
from command_line import command_line
from host_places import judge_all, make_campaign, opened, planned, scripted_guard

from kernelarc_mcp.host.backup import backup, restore
from kernelarc_mcp.host.errors import CampaignError
from kernelarc_mcp.host.verify import verify


def test_a_backup_made_while_agents_submit_and_conclude_goes_on_in_another_place(
    tmp_path: Path,
) -> None:
    folder, archive = tmp_path / "here" / "campaign", tmp_path / "campaign.tar.gz"
    guard = scripted_guard(tmp_path)
    folder.parent.mkdir()
    make_campaign(folder, attempts=400, memory=str(tmp_path / "here" / "shared.db"))
    with opened(folder) as host:
        wrong = host.submit("ada", source=planned(0, "wrong")).ticket
        judge_all(folder, guard)
        host.conclude("ada", "trap", "first", "l", wrong)
        done = threading.Event()

        def work() -> None:
            number = 1
            while not done.is_set():
                host.submit("bob", source=planned(number, "broken"))
                host.conclude("ada", "trap", f"number {number}", "l", wrong)
                number += 1

        worker = threading.Thread(target=work)
        worker.start()
        try:
            assert backup(folder, archive) == archive.stat().st_size
        finally:
            done.set()
            worker.join()
    # The machine is gone, and the memory that it shared with it.
    shutil.rmtree(tmp_path / "here")
    moved = tmp_path / "there" / "moved"
    restore(archive, moved)
    assert verify(moved) == []
    assert not list(moved.glob("*.lock")) and not (moved / "cache").exists()
    with opened(moved) as host:
        concluded = [r for r in host.campaign.journal.ledger.rows_after(0) if r.kind == "concluded"]
        assert host.memory("bob").stored == len(concluded) >= 1
        judge_all(moved, guard)
        assert host.submission("ada", host.submit("ada", source=planned(900, "broken")).ticket)
        assert (moved / "agents" / "ada" / "reference.py").is_file()
        host.conclude("ada", "trap", "elsewhere", "l", wrong)
        assert host.memory("bob").stored == len(concluded) + 1
    assert verify(moved) == []
    with pytest.raises(CampaignError, match="not empty"):
        restore(archive, moved)


def test_the_command_line_says_where_a_backup_may_not_go_and_leaves_nothing(
    folder: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    run = command_line(monkeypatch, capsys)
    status, out, _ = run("backup", str(folder), str(tmp_path / "b.tar.gz"))
    assert status == 0 and "verified" in out
    refusals = {
        str(tmp_path / "b.tar.gz"): "is there already",
        str(folder / "b.tar.gz"): "lies inside the campaign",
        str(tmp_path / "none" / "b.tar.gz"): "no such directory",
    }
    for target, said in refusals.items():
        status, _, err = run("backup", str(folder), target)
        assert status == 2 and said in err
    (tmp_path / "text.tar.gz").write_text("no archive")
    status, _, err = run("restore", str(tmp_path / "text.tar.gz"), str(tmp_path / "r"))
    assert status == 2 and "no backup of a campaign" in err and not (tmp_path / "r").exists()
    assert run("restore", str(tmp_path / "b.tar.gz"), str(tmp_path / "r"))[0] == 0
    assert run("verify", str(tmp_path / "r"))[0] == 0
    assert run("doctor", str(tmp_path / "r"))[0] == 0
    assert sorted(p.name for p in tmp_path.iterdir() if p.name.startswith(".")) == []
