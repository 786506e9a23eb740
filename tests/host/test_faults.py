"""Disks and files that fail under a campaign: what is said, that nothing is lost, and how it goes on."""

import json
import os
import re
import shutil
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import anyio
import pytest
from host_places import judge_all, kernel, make_campaign, opened, planned, scripted_guard

from kernelarc_mcp.cli.campaign_doctor import examine_campaign
from kernelarc_mcp.host.dispatcher import Dispatcher
from kernelarc_mcp.host.errors import CampaignError, StorageFault
from kernelarc_mcp.host.host import Host
from kernelarc_mcp.host.ledger import FILE
from kernelarc_mcp.host.verify import verify

ROOT = Path(__file__).resolve().parents[2]
MOUNTED = "mount -t tmpfs -o size=3m,mode=755 tmpfs /mnt && cp -r {campaign} /mnt/c && exec {run}"


def trouble(folder: Path) -> dict[str, str]:
    return {f.name: f.detail for f in examine_campaign(folder) if f.state != "ok"}


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Return what the callers of tests/disk_faults.py were told."""
    if os.geteuid() != 0:
        pytest.skip("only root may mount a small disk")
    probe = ["unshare", "-m", "mount", "-t", "tmpfs", "tmpfs", "/mnt"]
    if shutil.which("unshare") is None or subprocess.run(probe, capture_output=True).returncode:
        pytest.skip("mounting is not permitted here")
    place = tmp_path_factory.mktemp("disk")
    make_campaign(place / "campaign", attempts=200)
    run = f"{sys.executable} {ROOT / 'tests' / 'disk_faults.py'} /mnt/c"
    path = os.pathsep.join(str(ROOT / part) for part in (".", "guard", "memory", "tests"))
    done = subprocess.run(
        ["unshare", "-m", "sh", "-c", MOUNTED.format(campaign=place / "campaign", run=run)],
        env=os.environ | {"PYTHONPATH": path},
        capture_output=True,
        text=True,
        timeout=180,
    )
    assert done.returncode == 0, done.stderr
    return dict(json.loads(done.stdout))


def test_a_full_disk_charges_nothing_and_the_same_request_is_charged_once_there_is_room(
    seen: dict[str, Any],
) -> None:
    full = seen["full"]
    assert "the disk is full" in full["told"] and "same request_id" in full["told"]
    assert full["used"] == full["before"]
    assert "free some space" in full["doctor"]
    assert (full["again"], full["twice"]) == ("charged True", "charged False")
    assert full["after"] == full["before"] + 1 and full["verify"] == []


def test_a_read_only_disk_can_be_looked_at_and_verified(seen: dict[str, Any]) -> None:
    closed = seen["read_only"]
    assert "mounted read-only" in closed["told"] and "status" in closed["told"]
    assert closed["verify"] == [] and closed["report"] == closed["before"]
    assert "mounted read-only" in closed["doctor"]
    assert closed["document"] == {"findings": [], "attempts_used": closed["before"]}
    used, (waits,) = closed["glance"]
    assert used == closed["before"] and "/mnt/c` goes on" in waits


def test_somebody_who_may_only_read_is_told_whose_it_is(seen: dict[str, Any]) -> None:
    foreign = seen["wrong_owner"]
    assert "it belongs to root" in foreign["told"] and "copy" in foreign["told"]
    assert foreign["verify"] == [] and "not writable" in foreign["doctor"]


def test_a_damaged_page_is_found_and_leads_to_a_backup(folder: Path) -> None:
    with opened(folder) as host:
        for number in range(8):
            host.submit("ada", source=kernel(number) + "# " * 2000)
    with (folder / FILE).open("r+b") as file:
        for page in range(2, 12):
            file.seek(page * 4096)
            file.write(b"\xa5" * 64)
    with pytest.raises(CampaignError, match="damaged.*restore BACKUP NEW_DIR"):
        Host.open(folder).board()
    assert any("campaign.db" in found for found in verify(folder))
    assert "kernelarc-mcp restore" in trouble(folder)["database"]


def test_a_database_that_is_moved_away_takes_nothing_with_it_and_goes_on_where_it_was(
    folder: Path, tmp_path: Path
) -> None:
    with opened(folder) as host:
        host.submit("ada", source=kernel(1))
        (folder / FILE).rename(tmp_path / FILE)
        with pytest.raises(StorageFault, match="is gone since this process opened it"):
            host.submit("ada", source=kernel(2))
        assert "no campaign here" in trouble(folder)["database"]
        (tmp_path / FILE).rename(folder / FILE)
        assert host.submit("ada", source=kernel(2)).ticket == "s002"
        shutil.copy(folder / FILE, tmp_path / FILE)
        (tmp_path / FILE).replace(folder / FILE)
        with pytest.raises(StorageFault, match="was replaced"):
            host.submit("ada", source=kernel(3))


def test_missing_problem_and_workspaces_are_named(folder: Path) -> None:
    with opened(folder) as host:
        (folder / "problem").rename(folder / "elsewhere")
        shutil.rmtree(folder / "agents")
        found = trouble(folder)
        assert "put problem/ back" in found["problem"] and "get_brief" in found["workspaces"]
        host.brief("ada")
        assert (folder / "agents" / "ada" / "reference.py").is_file()


def test_a_clock_that_went_back_is_told_and_changes_no_count(tmp_path: Path) -> None:
    folder = tmp_path / "campaign"
    make_campaign(folder)
    host = Host.open(folder, lambda: datetime.now(UTC) + timedelta(days=3))
    host.register("ada")
    host.submit("ada", source=kernel(1))
    host.close()
    assert "the clock went back" in trouble(folder)["clock"]
    with opened(folder) as now:
        now.submit("ada", source=kernel(2))
        assert now.board().attempts_used == 2
    assert verify(folder) == []


def test_nothing_is_judged_without_room_and_it_goes_on_by_itself(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    short = ["the disk has 1 MiB free"]
    monkeypatch.setattr(
        "kernelarc_mcp.host.lanes.short_of_room", lambda *_: short[0] if short else ""
    )
    with opened(folder) as host:
        ticket = host.submit("ada", source=planned(1, "gain:0")).ticket

        async def judge() -> str:
            dispatcher = Dispatcher(host, scripted_guard(tmp_path), retry_seconds=0.05)
            async with anyio.create_task_group() as group:
                group.start_soon(dispatcher.run_until_idle)
                with anyio.fail_after(120):
                    while "1 MiB free" not in (said := host.submission("ada", ticket).message):
                        await anyio.sleep(0.01)
                short.clear()
            return said

        assert "Nothing is judged" in anyio.run(judge)
        assert host.submission("ada", ticket).verdict == "ACCEPT"


def test_a_device_that_vanishes_charges_nobody_and_is_waited_for(
    folder: Path, tmp_path: Path
) -> None:
    guard = scripted_guard(tmp_path)
    with opened(folder) as host:
        ticket = host.submit("ada", source=planned(1, "refuse_often")).ticket
        dispatcher = Dispatcher(host, guard, retry_seconds=0.05)
        anyio.run(dispatcher.run_until_idle)
        assert host.submission("ada", ticket).verdict == "ACCEPT"
        kinds = [row.kind for row in host.campaign.journal.ledger.rows_after(0)]
        assert kinds.count("interrupted") == 4 and kinds.count("submitted") == 1
    judge_all(folder, guard)
    assert verify(folder) == []


def test_whoever_names_no_campaign_is_told_what_the_folder_is(folder: Path, tmp_path: Path) -> None:
    file = tmp_path / "copy.tar.gz"
    file.write_text("x")
    (tmp_path / "empty").mkdir()
    for path, says in (
        (tmp_path, f"campaigns in it: {folder}"),
        (folder / "problem", "it is a problem: `kernelarc-mcp problems"),
        (folder / "agents", f"it is part of the campaign {folder}"),
        (tmp_path / "gone", "there is no such folder"),
        (tmp_path / "empty", "it is empty"),
        (file, "restore FILE NEW_DIR"),
    ):
        with pytest.raises(CampaignError, match=re.escape(says)):
            Host.open(path)
