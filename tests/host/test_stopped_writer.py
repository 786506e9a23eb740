"""A process that is stopped in the middle of a write: what the others are told, and that nothing is lost."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from host_places import kernel, opened

from kernelarc_mcp.cli.campaign_doctor import examine_campaign
from kernelarc_mcp.host import ledger
from kernelarc_mcp.host.errors import StorageFault
from kernelarc_mcp.host.verify import verify
from kernelarc_mcp.host.write_lock import blocker_of

ROOT = Path(__file__).resolve().parents[2]
STOP = """
import os, signal, sys
from pathlib import Path
from kernelarc_mcp.host.host import Host
host = Host.open(Path(sys.argv[1]))
with host.campaign.journal.writing() as writer:
    writer.owe("workspace", "ada")
    os.kill(os.getpid(), signal.SIGSTOP)
host.close()
"""


@contextmanager
def stopped_while_it_writes(folder: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Yield a process that has begun to write and is suspended."""
    path = os.pathsep.join(str(ROOT / part) for part in (".", "guard", "memory"))
    process = subprocess.Popen(
        [sys.executable, "-c", STOP, str(folder)], env=os.environ | {"PYTHONPATH": path}
    )
    try:
        _, status = os.waitpid(process.pid, os.WUNTRACED)
        assert os.WIFSTOPPED(status)
        yield process
    finally:
        process.kill()
        process.wait()


def writing(folder: Path) -> list[str]:
    """Return what `doctor` says of writers."""
    return [found.detail for found in examine_campaign(folder) if found.name == "writing"]


def test_who_is_stopped_while_it_writes_is_named_and_goes_on_without_loss(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ledger, "_PATIENCE", 0.3)
    with opened(folder) as host:
        host.submit("ada", source=kernel(1))
        assert writing(folder) == []
        with stopped_while_it_writes(folder) as process:
            told = (
                rf"process {process.pid} \(.*stopped.*`kill -CONT {process.pid}`.*same request_id"
            )
            for _ in range(2):
                with pytest.raises(StorageFault, match=told):
                    host.submit("ada", source=kernel(2), request_id="two")
            (said,) = writing(folder)
            assert f"`kill -KILL {process.pid}`" in said and said.startswith("campaign.db")
            assert host.board().attempts_used == 1
            process.send_signal(signal.SIGCONT)
            assert process.wait() == 0
        assert host.submit("ada", source=kernel(2), request_id="two").charged
        assert host.board().attempts_used == 2 and writing(folder) == []
    assert verify(folder) == []


def test_ending_who_is_stopped_undoes_only_what_it_had_not_finished(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ledger, "_PATIENCE", 0.3)
    with opened(folder) as host:
        host.submit("ada", source=kernel(1))
        with stopped_while_it_writes(folder):
            with pytest.raises(StorageFault, match="stopped in the middle of a write"):
                host.submit("ada", source=kernel(2))
        assert host.submit("ada", source=kernel(2)).charged
        assert host.board().attempts_used == 2
    assert verify(folder) == []


def test_who_only_writes_for_long_is_named_too(folder: Path) -> None:
    with opened(folder) as host, host.campaign.journal.writing():
        blocker = blocker_of(folder / ledger.FILE)
        assert blocker is not None and blocker.pid == os.getpid()
        assert str(blocker).endswith("is writing")
    assert blocker_of(folder / ledger.FILE) is None


def test_nobody_is_looked_for_while_a_ledger_is_free(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks: list[Path] = []
    monkeypatch.setattr(ledger, "stopped_writer", looks.append)
    with opened(folder) as host:
        ticket, charged = host.submit("ada", source=kernel(1))
    assert ticket and charged and not looks
