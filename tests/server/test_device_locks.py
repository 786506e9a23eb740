"""`doctor` names the process that holds a device."""

import os
import subprocess
import sys
from pathlib import Path

from kernelarc_mcp.cli.device_locks import holders

HOLD = (
    "import sys; from filelock import FileLock\n"
    "with FileLock(sys.argv[1]): print('held', flush=True); sys.stdin.read()\n"
)


def test_the_holder_of_a_device_is_named_until_it_ends(tmp_path: Path) -> None:
    lock = tmp_path / "device-cpu.lock"
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, str(lock)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None and process.stdin is not None
        assert process.stdout.readline() == b"held\n"
        (found,) = holders(tmp_path)
        assert (found.device, found.pid) == ("cpu", process.pid)
        assert "FileLock" in found.command and "pytest" in found.parent
        assert str(found).startswith(f"cpu is held by process {process.pid} (")
        process.stdin.close()
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
