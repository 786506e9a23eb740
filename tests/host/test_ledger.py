"""The ledger file: a chain of rows, whole transactions, many processes, and a newer schema."""

import os
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest
from host_places import kernel, make_campaign, make_problem, make_settings

from kernelarc_guard.problem import read_problem
from kernelarc_mcp.host.errors import BudgetSpent, CampaignError, LedgerBroken
from kernelarc_mcp.host.events import Concluded, Registered
from kernelarc_mcp.host.host import Host
from kernelarc_mcp.host.ledger import FILE, Ledger
from kernelarc_mcp.host.replay import Inconsistent
from kernelarc_mcp.host.verify import check_chain, verify

ROOT = Path(__file__).resolve().parents[2]
SUBMIT = """
import sys
from pathlib import Path
from host_places import kernel
from kernelarc_mcp.host.errors import BudgetSpent
from kernelarc_mcp.host.host import Host
host, agent, base = Host.open(Path(sys.argv[1])), sys.argv[2], int(sys.argv[3])
host.register(agent)
sys.stdin.readline()
for number in range(12):
    source = kernel(base + number)
    try:
        first = host.submit(agent, source=source, request_id=f"r{number}")
        again = host.submit(agent, source=source, request_id=f"r{number}")
    except BudgetSpent:
        print("spent")
        continue
    assert first.ticket == again.ticket and not again.charged
    print(first.ticket, first.charged)
"""


def run_together(folder: Path, callers: list[tuple[str, int]]) -> list[str]:
    """Run submitting processes that all start at one moment, and return what they printed."""
    path = os.pathsep.join(str(ROOT / part) for part in (".", "guard", "memory", "tests"))
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", SUBMIT, str(folder), agent, str(base)],
            env=os.environ | {"PYTHONPATH": path},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for agent, base in callers
    ]
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()
    lines: list[str] = []
    for process in processes:
        out, _ = process.communicate(timeout=120)
        assert process.returncode == 0
        lines += out.splitlines()
    return lines


def test_several_processes_charge_each_request_exactly_once(tmp_path: Path) -> None:
    folder = tmp_path / "campaign"
    make_campaign(folder, attempts=60)
    lines = run_together(folder, [("ada", 0), ("ada", 0), ("bob", 100), ("bob", 200)])
    host = Host.open(folder)
    # The two adas send the same requests, the two bobs send different sources under the same ids.
    charged = [line for line in lines if line.endswith("True")]
    assert len(charged) == len({line.split()[0] for line in lines}) == 24
    assert [row.attempts_used for row in host.board().agents] == [12, 12]
    assert check_chain(host.campaign.journal.ledger.rows_after(0)) == []
    host.close()
    assert verify(folder) == []


def test_agents_of_one_pool_never_overdraw_it(tmp_path: Path) -> None:
    folder = tmp_path / "campaign"
    make_campaign(folder, attempts=17, pool=True)
    lines = run_together(folder, [("ada", 0), ("bob", 100), ("ada", 0)])
    assert len([line for line in lines if line.endswith("True")]) == 17
    assert "spent" in lines
    host = Host.open(folder)
    assert host.board().attempts_used == 17
    with pytest.raises(BudgetSpent):
        host.submit("bob", source=kernel(999))
    assert host.brief("bob").state.directive == "STOP"
    host.close()
    assert verify(folder) == []


def test_the_remainder_of_the_attempts_goes_to_the_first_agent(tmp_path: Path) -> None:
    make_campaign(tmp_path / "c", attempts=11)
    host = Host.open(tmp_path / "c")
    assert [row.attempts_left for row in host.board().agents] == [6, 5]
    host.close()


def test_a_refused_transaction_leaves_nothing_behind(folder: Path) -> None:
    host = Host.open(folder)
    host.register("ada")
    journal = host.campaign.journal
    before = journal.ledger.last_seq()
    with pytest.raises(Inconsistent, match="no submission"), journal.writing() as writer:
        writer.append(Registered(lens="memory-layout"), "bob")
        writer.append(Concluded(conclusion=1, conclusion_kind="win", evidence="s009"), "ada")
    assert journal.ledger.last_seq() == before
    with journal.reading() as state:
        assert state.agents["bob"].lens == ""
    host.close()


def test_rows_are_flushed_to_disk_and_writers_wait_for_one_another(folder: Path) -> None:
    ledger = Ledger.open(folder)
    assert ledger.connection.execute("PRAGMA journal_mode").fetchone()[0] == "wal"
    assert ledger.connection.execute("PRAGMA synchronous").fetchone()[0] == 2
    assert ledger.connection.execute("PRAGMA busy_timeout").fetchone()[0] >= 10_000
    ledger.close()


def test_a_campaign_of_a_newer_version_is_refused_with_its_reason(folder: Path) -> None:
    with sqlite3.connect(folder / FILE) as db:
        db.execute(
            "INSERT INTO _sqlite_migrations (migration_set, name, applied_at)"
            " VALUES ('kernelarc_campaign', 'm999_future', '2030-01-01')"
        )
    db.close()
    with pytest.raises(CampaignError, match="newer version.*m999_future"):
        Host.open(folder)
    assert "newer version" in verify(folder)[0]


def test_a_directory_that_is_no_campaign_is_named(tmp_path: Path) -> None:
    with pytest.raises(CampaignError, match="no campaign here"):
        Host.open(tmp_path)
    (tmp_path / FILE).write_bytes(b"not a database at all, but long enough to be read as one" * 20)
    with pytest.raises(CampaignError, match="cannot be opened"):
        Host.open(tmp_path)
    assert verify(tmp_path) != []


def test_a_campaign_is_not_created_over_other_files(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(CampaignError, match="not empty"):
        Host.create(tmp_path, make_settings(), make_problem(), None)


def test_the_campaign_keeps_the_problem_in_the_form_it_is_read_in(folder: Path) -> None:
    assert read_problem(folder / "problem").digest == make_problem().digest


def test_a_host_does_not_go_on_from_a_broken_chain(folder: Path) -> None:
    host = Host.open(folder)
    host.register("ada")
    with sqlite3.connect(folder / FILE) as db:
        db.execute("UPDATE event SET hash = 'x' WHERE seq <= 2")
    db.close()
    for _ in range(2):
        with pytest.raises(LedgerBroken, match="row 2"):
            host.register("bob")
    host.close()
    with pytest.raises(LedgerBroken, match="row 2 does not follow"):
        Host.open(folder)


def test_a_token_opens_one_campaign_until_it_is_revoked(tmp_path: Path) -> None:
    tokens = dict(make_campaign(tmp_path / "c", pool=True))
    make_campaign(tmp_path / "d")
    host, other = Host.open(tmp_path / "c"), Host.open(tmp_path / "d")
    assert host.agent_for_token(tokens["ada"]) == "ada"
    assert other.agent_for_token(tokens["ada"]) is None
    again = host.add_agent("ada")
    assert host.revoke("ada") == 2
    assert host.agent_for_token(tokens["ada"]) is None and host.agent_for_token(again) is None
    assert host.agent_for_token(host.add_agent("cyd")) == "cyd"
    assert tokens["ada"].encode() not in (tmp_path / "c" / FILE).read_bytes()
    host.close()
    other.close()
    assert verify(tmp_path / "c") == []
