"""`doctor` names the process that holds a device."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from kernelarc_guard.protocol import Progress
from kernelarc_mcp.cli import stages
from kernelarc_mcp.cli.device_locks import holders
from kernelarc_mcp.cli.stages import told
from kernelarc_mcp.host.guard_client import WAITING
from kernelarc_mcp.host.other_processes import command_of

HOLD = (
    "import sys; from filelock import FileLock\n"
    "with FileLock(sys.argv[1]): print('held', flush=True); sys.stdin.read()\n"
)
"""Holds a lock until its input ends."""
ASK = (
    "import sys; from pathlib import Path; from kernelarc_mcp.cli.device_locks import others\n"
    "print([one.pid for one in others(Path(sys.argv[1]))])\n"
)


@contextmanager
def held(lock: Path) -> Iterator[int]:
    """Have a process below this one hold a lock; yields its number."""
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, str(lock)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None and process.stdin is not None
        assert process.stdout.readline() == b"held\n"
        yield process.pid
        process.stdin.close()


def test_who_waits_is_told_of_another_holder_and_not_of_its_own_guard(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stages, "lock_dir", lambda: tmp_path)
    waits = Progress(id="x", stage="policy", done=1, of=2, message=WAITING)
    with held(tmp_path / "device-cpu.lock") as pid:
        # To this process the holder is what it started itself, to another one a stranger.
        assert told(waits) == WAITING
        asked = subprocess.run(
            [sys.executable, "-c", ASK, str(tmp_path)], capture_output=True, text=True, check=True
        )
        assert asked.stdout.strip() == f"[{pid}]"


def test_the_holder_of_a_device_is_named_until_it_ends(tmp_path: Path) -> None:
    lock = tmp_path / "device-cpu.lock"
    with held(lock) as pid:
        (found,) = holders(tmp_path)
        assert (found.device, found.pid) == ("cpu", pid)
        assert "FileLock" in found.command
        assert found.parent == command_of(os.getpid())
        assert str(found).startswith(f"cpu is held by process {pid} (")
    assert holders(tmp_path) == []


def test_a_waiting_process_is_no_holder_and_a_machine_that_lists_no_locks_has_none(
    tmp_path: Path,
) -> None:
    lock = tmp_path / "device-gpu.lock"
    lock.touch()
    status = lock.stat()
    major, minor = os.major(status.st_dev), os.minor(status.st_dev)
    where = f"{major:02x}:{minor:02x}:{status.st_ino}"
    listed = tmp_path / "locks"
    listed.write_text(f"1: -> FLOCK  ADVISORY  WRITE 77 {where} 0 EOF\n")
    assert holders(tmp_path, listed) == []
    assert holders(tmp_path, tmp_path / "missing") == []
