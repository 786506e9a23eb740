"""Commands in a room of their own: who is left behind, and what all of them together may take."""

import sys
import time
from pathlib import Path

import pytest

from kernelarc_guard import compile_job, supervised
from kernelarc_guard.sandbox import find_sandbox
from kernelarc_guard.supervised import Room, SupervisorLost, supervise

DEADLINE = 120.0
THREADS = (
    "from threading import Event, Thread; [Thread(target=Event().wait).start() for _ in range(9)]"
)


@pytest.fixture
def room(tmp_path: Path) -> Room:
    """Return a room in which a solution's code runs; without bubblewrap there is none to test."""
    sandbox = find_sandbox()
    if not sandbox.bubblewrap:
        pytest.skip("no bubblewrap here")
    given, out = tmp_path / "given", tmp_path / "out"
    given.mkdir()
    out.mkdir()
    return Room(sandbox, given=given, out=out, hostile=True)


def test_a_process_that_left_its_group_and_holds_the_output_open_is_not_waited_for(
    room: Room,
) -> None:
    left = 'setsid sh -c ": > up; exec sleep 600" & while [ ! -e up ]; do :; done; echo said'
    answer = room.run(["/bin/sh", "-c", left], DEADLINE)
    assert (answer["returncode"], answer["output"], answer["passed"]) == (0, "said\n", "")
    assert answer["seconds"] < DEADLINE


@pytest.mark.parametrize(
    ("limit", "value", "script", "said"),
    [
        ("_OUT_BYTES", 1 << 20, "head -c 3000000 /dev/zero > big", "1048576 bytes of files"),
        ("_OUT_BYTES", 1 << 20, "mkdir shut; chmod 000 shut", "files that cannot be counted"),
        ("MOST_ENTRIES", 50, "mkdir d; cd d; mkdir $(seq 60)", "more than 50 of them"),
        ("TASKS", 8, "for i in 1 2 3 4 5 6 7 8 9; do sleep 600 & done", "more than 8 processes"),
        ("TASKS", 8, f"{sys.executable} -c '{THREADS}'", "more than 8 processes and threads"),
    ],
)
def test_what_all_processes_together_take_is_counted_and_ends_them(
    room: Room, monkeypatch: pytest.MonkeyPatch, limit: str, value: int, script: str, said: str
) -> None:
    monkeypatch.setattr(supervised, limit, value)
    answer = room.run(["/bin/sh", "-c", f"{script}; sleep 600"], DEADLINE)
    assert answer["returncode"] is None and said in answer["passed"]
    assert answer["seconds"] < DEADLINE


def test_memory_of_all_processes_together_is_counted(
    room: Room, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(supervised, "memory_limit", lambda: 1 << 16)
    answer = room.run(["/bin/sh", "-c", "sleep 600"], DEADLINE)
    assert answer["returncode"] is None and "65536 bytes of memory" in answer["passed"]


def test_memory_that_nobody_maps_ends_a_job_before_the_machine_has_none(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    told = tmp_path / "meminfo"
    monkeypatch.setattr(compile_job, "MEMORY", str(told))
    for left, little in ((1000, False), (999, True)):
        told.write_text(f"MemTotal: 10000 kB\nMemFree: 0 kB\nMemAvailable: {left} kB\n")
        assert compile_job.little_memory_left() is little


def test_a_solutions_processes_are_the_first_to_end_where_memory_runs_out(room: Room) -> None:
    answer = room.run(["cat", "/proc/self/oom_score_adj"], DEADLINE)
    assert answer["output"] == "1000\n"


@pytest.mark.parametrize("ends", ["os.kill(os.getpid(), 9)", "time.sleep(600)"])
def test_a_supervisor_that_is_killed_or_hangs_is_not_waited_for(
    monkeypatch: pytest.MonkeyPatch, ends: str
) -> None:
    monkeypatch.setattr(supervised, "_GRACE_SECONDS", 0.5)
    # As a sandbox that dies while it is set up: its child holds the output open and waits for it.
    program = f"import os, time\nif os.fork() == 0: time.sleep(600)\n{ends}"
    began = time.monotonic()
    with pytest.raises(SupervisorLost, match="the supervisor ended with code -9"):
        supervise([sys.executable, "-c", program], {"seconds": 0.5})
    assert time.monotonic() - began < DEADLINE
