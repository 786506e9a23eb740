"""What happens outside of the ledger's database happens once, wherever a process is killed."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from host_places import judge_all, make_campaign, opened, planned, scripted_guard

from kernelarc_mcp.host.verify import verify

ROOT = Path(__file__).resolve().parents[2]
DIE_CONCLUDING = """
import os, sys
from pathlib import Path
from kernelarc_mcp.host.host import Host
from kernelarc_memory import MemoryStore
real = MemoryStore.write_all
def dying(*given):
    if sys.argv[2] == "after":
        real(*given)
    os._exit(9)
MemoryStore.write_all = dying
Host.open(Path(sys.argv[1])).conclude("ada", "trap", "Not so", "It is wrong.", "s001")
"""
DIE_RESTORING = """
import os, sys
from pathlib import Path
import kernelarc_mcp.host.workspace as workspace
workspace._write_whole = lambda *_: os._exit(9)
from host_places import judge_all
judge_all(Path(sys.argv[1]), sys.argv[2])
"""


def killed(program: str, *arguments: str) -> None:
    path = os.pathsep.join(str(ROOT / part) for part in (".", "guard", "memory", "tests"))
    done = subprocess.run(
        [sys.executable, "-c", program, *arguments],
        env=os.environ | {"PYTHONPATH": path},
        timeout=120,
        check=False,
    )
    assert done.returncode == 9


@pytest.fixture(scope="module")
def guard(tmp_path_factory: pytest.TempPathFactory) -> str:
    return scripted_guard(tmp_path_factory.mktemp("guard"))


@pytest.mark.parametrize("moment", ["before", "after"])
def test_a_conclusion_is_kept_once_though_its_server_is_killed_while_it_is_written(
    tmp_path: Path, guard: str, moment: str
) -> None:
    folder = tmp_path / "campaign"
    make_campaign(folder)
    with opened(folder) as host:
        host.submit("ada", source=planned(1, "wrong"))
        judge_all(folder, guard)
    killed(DIE_CONCLUDING, str(folder), moment)
    assert verify(folder) == []
    with opened(folder) as host:
        (kept,) = host.memory("bob").conclusions
        assert (kept.summary, kept.seen) == ("Not so", 1)
        # The client had no answer and asks again.
        again = host.conclude("ada", "trap", "Not so", "It is wrong.", "s001")
        assert (again.id, again.merged) == (kept.id, True)
        assert host.memory("bob").conclusions == [kept]
        rows = host.campaign.journal.ledger.rows_after(0)
        assert [row.kind for row in rows].count("concluded") == 1
    assert verify(folder) == []


def test_a_memory_that_is_gone_is_written_again_from_the_ledger(tmp_path: Path, guard: str) -> None:
    folder = tmp_path / "campaign"
    make_campaign(folder)
    with opened(folder) as host:
        host.submit("ada", source=planned(1, "wrong"))
        judge_all(folder, guard)
        host.conclude("ada", "trap", "Not so", "It is wrong.", "s001")
        before = host.memory("bob").conclusions
        for path in folder.glob("memory.db*"):
            path.unlink()
        assert host.memory("bob").conclusions == before


def test_a_workspace_is_put_back_after_a_kill_unless_its_agent_has_gone_on(
    tmp_path: Path, guard: str
) -> None:
    folder = tmp_path / "campaign"
    make_campaign(folder)
    with opened(folder) as host:
        host.submit("ada", source=planned(1, "wrong"))
        host.submit("bob", source=planned(2, "wrong"))
        seed = host.snapshot("ada", "seed").text
    for agent in ("ada", "bob"):
        (folder / "agents" / agent / "reference.py").write_text("# half an idea\n")
    killed(DIE_RESTORING, str(folder), guard)
    ada = folder / "agents" / "ada" / "reference.py"
    assert not ada.exists()  # moved away, and nothing was in its place yet
    judge_all(folder, guard)
    assert ada.read_text() == seed
    assert (ada.parent / "previous" / "001" / "reference.py").read_text() == "# half an idea\n"
    ada.write_text("# another idea\n")
    judge_all(folder, guard)
    assert ada.read_text() == "# another idea\n"
    assert verify(folder) == []
