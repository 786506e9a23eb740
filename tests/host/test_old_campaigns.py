"""Databases of older schemas, as their own versions left them, opened by this one."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from host_places import judge_all, make_problem, scripted_guard

from kernelarc_guard.formats.writing import documents_of, write_folder
from kernelarc_mcp.host.errors import CampaignError, LedgerBroken
from kernelarc_mcp.host.host import Host
from kernelarc_mcp.host.ledger import Ledger, missing_migrations
from kernelarc_mcp.host.verify import verify
from kernelarc_memory import MemoryStore, NewerMemory

STORED = Path(__file__).resolve().parents[1] / "data" / "old_campaigns"


def stored(name: str, folder: Path) -> Path:
    """Make a campaign's directory of what an older version had in its databases."""
    folder.mkdir()
    write_folder(folder / "problem", documents_of(make_problem()), None)
    for database in ("campaign", "memory"):
        with closing(sqlite3.connect(folder / f"{database}.db")) as db:
            db.executescript((STORED / name / f"{database}.sql").read_text())
    return folder


@pytest.mark.parametrize("name", ["schema-2", "schema-3"])
def test_a_campaign_of_each_older_schema_is_brought_up_to_date_and_goes_on(
    name: str, tmp_path: Path
) -> None:
    folder = stored(name, tmp_path / "campaign")
    ledger = Ledger.open_read_only(folder)
    before = ledger.rows_after(0)
    assert missing_migrations(ledger.connection) != []
    ledger.close()
    host = Host.open(folder)
    assert missing_migrations(host.campaign.journal.ledger.connection) == []
    assert host.board().attempts_used == 6
    judge_all(folder, scripted_guard(tmp_path))
    assert host.submission("ada", "s006").state == "done"
    assert [one.summary for one in host.memory("bob").conclusions] == ["It is faster"]
    host.conclude("bob", "trap", "It is slower", "By a fifth.", "s004")
    assert host.memory("bob").stored == 2
    assert host.campaign.journal.ledger.rows_after(0)[: len(before)] == before
    host.close()
    # What was measured then, and what rests on it, was held to fewer rules: the proof says so.
    findings = verify(folder)
    assert all("its pairs" in found for found in findings)
    assert findings == [] or name == "schema-2"


def test_rows_that_this_versions_rules_refuse_are_named_and_left_as_they_are(
    tmp_path: Path,
) -> None:
    folder = stored("schema-2-keep", tmp_path / "campaign")
    with pytest.raises(LedgerBroken, match="row 12: settled: a KEEP comes with its ratio"):
        Host.open(folder)
    with closing(sqlite3.connect(folder / "campaign.db")) as db:
        assert db.execute("SELECT count(*) FROM event").fetchone()[0] == 29


def test_a_newer_campaign_or_memory_is_refused_by_name_before_anything_is_written(
    tmp_path: Path,
) -> None:
    folder = stored("schema-3", tmp_path / "campaign")
    for database, migrations in (
        ("campaign", "kernelarc_campaign"),
        ("memory", "kernelarc_memory"),
    ):
        path = folder / f"{database}.db"
        with closing(sqlite3.connect(path, isolation_level=None)) as db:
            db.execute(
                "INSERT INTO _sqlite_migrations (migration_set, name, applied_at)"
                " VALUES (?, 'm999_future', '2030-01-01')",
                [migrations],
            )
        before = path.read_bytes()
        with pytest.raises((CampaignError, NewerMemory), match="newer version.*m999_future"):
            Host.open(folder) if database == "campaign" else MemoryStore(path)
        assert path.read_bytes() == before
