"""Counted limits and the refusal: what holds where the kernel offers less."""

import hashlib
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest
from guard_process import REFERENCE, SCHEDULE, python
from laboratory import Laboratory

from kernelarc_guard.cgroups import Cgroups
from kernelarc_guard.protocol import ANSWER, Refusal, Result
from kernelarc_guard.window import Window

RUN = "\n\ndef run(x, scale):\n    return torch.tanh(x) * scale\n"
WITHOUT = """import ctypes, errno, os, sys
from kernelarc_guard import landlock, seccomp
code = seccomp.Assembler()
if "namespaces" in sys.argv[1]:
    code.with_bits((56, 220), 0, 0x10000000)
    code.answer((435, 435), errno.ENOSYS)
    code.answer((272, 97), errno.EPERM)
if "landlock" in sys.argv[1]:
    code.answer((444, 444), errno.ENOSYS)
landlock.no_new_privileges()
seccomp.install_program(code.finish())
os.execv(sys.executable, [sys.executable, "-I", "-m", "kernelarc_guard", *sys.argv[2:]])
"""
"""Start a guard as a container would that forbids some of what the sandbox is made of."""


class _NobodyMoves(Cgroups):
    """A machine where groups can be made but no process may be moved into them."""

    def __init__(self, tasks: int, memory_bytes: int) -> None:
        self._folders = []
        self.pids = self.memory = True

    def attach(self, pids: Iterable[int]) -> None:
        raise PermissionError("not this one")


class _NoGroups(Cgroups):
    """A machine that lets nobody write control groups."""

    def __init__(self, tasks: int, memory_bytes: int) -> None:
        self._folders = []
        self.pids = self.memory = False


@pytest.fixture
def counted() -> Iterator[Laboratory]:
    with pytest.MonkeyPatch.context() as patch, tempfile.TemporaryDirectory() as folder:
        patch.setattr("kernelarc_guard.keeper.Cgroups", _NoGroups)
        patch.setattr("kernelarc_guard.keeper.memory_limit", lambda: 3 << 30)
        with Laboratory(Path(folder)) as one:
            yield one


def test_what_is_said_to_limit_a_nursery_is_what_does(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("kernelarc_guard.keeper.Cgroups", _NobodyMoves)
    counting = "counted" if os.geteuid() == 0 else "rlimit"
    with Laboratory(tmp_path) as one:
        assert one.nursery.protection == {"pids": counting, "memory": "rlimit and counted"}


@pytest.mark.skipif(os.geteuid() != 0, reason="an ordinary user has RLIMIT_NPROC")
def test_a_fork_bomb_is_counted_and_ended_where_no_group_can_be_made(counted: Laboratory) -> None:
    bomb = "import os, torch\nwhile True:\n    try:\n        os.fork()\n    except OSError:\n        pass\n"
    fault = counted.fault(bomb + RUN)
    assert fault.reason in ("limit_passed", "crashed"), fault.detail
    assert counted.nursery.lost, "nothing of it is used again"


def test_memory_of_all_processes_is_counted_where_no_group_can_be_made(
    counted: Laboratory,
) -> None:
    source = (
        "import os, time, torch\nfor _ in range(4):\n    if os.fork() == 0:\n"
        "        keep = bytearray(os.urandom(1 << 20) * 1024)\n        time.sleep(600)\n"
        "time.sleep(600)\n" + RUN
    )
    fault = counted.fault(source, start_seconds=60.0)
    assert (fault.reason, "bytes" in fault.detail) == ("limit_passed", True), fault.detail


def test_cpu_time_beyond_the_given_threads_is_reverted(
    counted: Laboratory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The filter fakes sched_setaffinity, so a runner cannot get there: the warden is asked alone."""
    if len(os.sched_getaffinity(0)) < 2:
        pytest.skip("needs two cores")
    arm = counted.start("import torch\n" + RUN)
    answer = {"ns": 10_000_000, "cpu_ns": 40_000_000, "threads": 1}
    monkeypatch.setattr(arm._runner, "go", lambda seconds: answer)
    with pytest.raises(
        Exception, match=r"40 ms of CPU time; the problem gives it 1 threads"
    ) as raised:
        counted.call(arm)
    assert getattr(raised.value, "reason", "") == "too_many_threads"
    monkeypatch.undo()
    arm.close()


def test_a_window_reports_the_cpu_time_of_all_threads() -> None:
    script = (
        "import hashlib, os, signal, threading\nstop = lambda: os.kill(os.getpid(), signal.SIGSTOP)\n"
        "stop()\n"
        "work = lambda: hashlib.pbkdf2_hmac('sha256', b'x', b'y', 100000)\n"
        "threads = [threading.Thread(target=work) for _ in range(3)]\n"
        "for one in threads: one.start()\nfor one in threads: one.join()\nstop()\n"
    )
    begin = time.thread_time_ns()
    hashlib.pbkdf2_hmac("sha256", b"x", b"y", 100000)
    alone = time.thread_time_ns() - begin
    process = subprocess.Popen([sys.executable, "-c", script])
    window = Window(process.pid)
    try:
        window.wait_stopped(20)
        window.go(20)
        assert window.cpu_ns > 1.5 * alone
    finally:
        window.kill()
        process.returncode = 0


@pytest.mark.parametrize(
    ("missing", "arguments", "protection"),
    [
        ("namespaces", [], "landlock"),
        ("namespaces landlock", [], None),
        ("namespaces landlock", ["--allow-unsandboxed"], "none"),
    ],
)
def test_a_guard_says_what_protects_it_or_refuses(
    missing: str, arguments: list[str], protection: str | None, tmp_path: Path
) -> None:
    request = {
        "id": "r1",
        "op": "screen",
        "cache_dir": str(tmp_path / "cache"),
        "schedule": SCHEDULE,
        "problem": _problem(),
        "record": python(REFERENCE),
        "candidate": python(REFERENCE),
        "correctness_only": True,
    }
    with subprocess.Popen(
        [sys.executable, "-c", WITHOUT, missing, *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as guard:
        assert guard.stdin is not None and guard.stdout is not None
        guard.stdin.write(json.dumps(request).encode() + b"\n")
        guard.stdin.flush()
        answers = (ANSWER.validate_json(line) for line in guard.stdout)
        answer = next(one for one in answers if isinstance(one, Result | Refusal))
        guard.stdin.close()
    if protection is None:
        assert isinstance(answer, Refusal)
        assert "no sandbox" in answer.error and "--allow-unsandboxed" in answer.error
        return
    assert isinstance(answer, Result)
    assert answer.protection["sandbox"] == protection
    assert answer.protection["missing"]
    assert answer.stages["correctness"].state == "passed", answer.detail


def _problem() -> object:
    from guard_process import problem

    return problem()
