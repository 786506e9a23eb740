"""Solutions that misbehave: each gets its verdict in time, and the next one is judged normally."""

import os
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from guard_process import REFERENCE, SCHEDULE, Guard, cpp, python
from laboratory import Laboratory

from benchmarks.leftovers import snapshot
from kernelarc_guard.faults import SolutionFault
from kernelarc_guard.processes import descendants
from kernelarc_guard.protocol import Refusal, Result

RUN = "\n\ndef run(x, scale):\n    return torch.tanh(x) * scale\n"
IN_C = """#include <dlpack/dlpack.h>
extern "C" int run(const DLTensor* x, double scale, DLTensor* y) { BODY return 0; }
"""
START_SECONDS = 3.0
PATIENT_SECONDS = 60.0
GRACE = 20.0
LATE = START_SECONDS + GRACE
"""A verdict must be there by then: a deadline, a nursery that starts anew, and a busy machine."""


@pytest.fixture(scope="module")
def guard(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guard]:
    with Guard(tmp_path_factory.mktemp("cache")) as one:
        yield one


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Laboratory]:
    with Laboratory(tmp_path_factory.mktemp("lab")) as one:
        yield one


def judged(
    guard: Guard, candidate: dict[str, object], start_seconds: float = START_SECONDS
) -> Result:
    """Judge a candidate up to correctness, without waiting for anybody's timing."""
    schedule = SCHEDULE | {
        "start_seconds": start_seconds,
        "call_seconds": 2.0,
        "memory_bytes": 3 << 30,
    }
    return guard.ask("screen", candidate=candidate, schedule=schedule, correctness_only=True)


AT_IMPORT = {
    "loop": ("while True:\n    pass\n", "timeout"),
    "loop in C": ("sum(range(10 ** 13))\n", "timeout"),
    "sleep": ("import time\ntime.sleep(600)\n", "timeout"),
    "exit politely": ("raise SystemExit(0)\n", "build_failed"),
    "closed": ("import os\nos.closerange(0, 1000)\n", "crashed"),
    "flood": ("import os\nwhile True:\n    os.write(1, b'\\xff' * 65536)\n", "build_failed"),
    "memory": ("keep = []\nwhile True:\n    keep.append(torch.empty(1 << 26))\n", "build_failed"),
    "memory outside": (
        "import os, mmap\nkeep = []\nwhile True:\n    keep.append(os.memfd_create('m'))\n"
        "    os.write(keep[-1], bytes(1 << 20))\n",
        "build_failed",
    ),
    "scratch": (
        "data = bytes(1 << 20)\nfor i in range(10000):\n"
        "    with open(f'f{i % 8}', 'ab') as file:\n        file.write(data)\n",
        "build_failed",
    ),
    "sparse": ("open('f', 'wb').truncate(1 << 40)\n", "build_failed"),
    "descriptors": ("keep = [open('/dev/null') for _ in range(100000)]\n", "build_failed"),
    "threads": (
        "import threading, time\nfor _ in range(100000):\n"
        "    threading.Thread(target=time.sleep, args=(900,), daemon=True).start()\n",
        "build_failed",
    ),
}


@pytest.mark.parametrize("name", AT_IMPORT)
def test_a_fault_at_import_is_rejected_in_time_and_the_next_is_judged(
    guard: Guard, name: str
) -> None:
    source, reason = AT_IMPORT[name]
    begin = time.monotonic()
    # What ends by itself may take its time: only an endless one is to meet the deadline.
    limit = START_SECONDS if reason == "timeout" else PATIENT_SECONDS
    result = judged(guard, python("import torch\n" + source + RUN), limit)
    assert result.reason == reason, (result.reason, result.detail)
    assert result.verdict == "REJECT"
    assert _spent(result) < limit + GRACE and time.monotonic() - begin >= _spent(result) - 0.1
    _unharmed(guard)


WHILE_RUNNING = {
    "loop in C": (IN_C.replace("BODY", "for (volatile long i = 0;; ++i) {}"), "timeout"),
    "crash in C": (IN_C.replace("BODY", "*(volatile int*)8 = 1;"), "crashed"),
    "exit in C": ("#include <unistd.h>\n" + IN_C.replace("BODY", "_exit(0);"), "crashed"),
    "stack in C": (
        "static int down(int n) { volatile char big[4096]; big[0] = n; return down(n + 1) + big[0]; }\n"
        + IN_C.replace("BODY", "return down(0);"),
        "crashed",
    ),
    "stop in C": (
        "#include <signal.h>\n" + IN_C.replace("BODY", "volatile int number = 19; raise(number);"),
        "tampering",
    ),
    "throw in C": (IN_C.replace("BODY", "throw 1;"), "crashed"),
    "status in C": (IN_C.replace("BODY", "if (x) return 7;"), "raised"),
}


@pytest.mark.parametrize("name", WHILE_RUNNING)
def test_a_fault_in_native_code_has_its_reason(guard: Guard, name: str) -> None:
    source, reason = WHILE_RUNNING[name]
    limit = START_SECONDS if reason == "timeout" else PATIENT_SECONDS
    result = judged(guard, cpp(source), limit)
    assert result.reason == reason, (result.reason, result.detail)
    assert _spent(result) < limit + GRACE
    _unharmed(guard)


def test_a_compiler_that_never_ends_is_a_timeout(guard: Guard) -> None:
    endless = (
        "template <int A, int B> struct T { static const int v = T<A - 1, B>::v + T<A, B - 1>::v; };\n"
        "template <int A> struct T<A, 0> { static const int v = 1; };\n"
        "template <int B> struct T<0, B> { static const int v = 1; };\n"
        "constexpr long spin() { long n = 0; for (long i = 0; i < 1L << 60; ++i) n += i; return n; }\n"
        "constexpr long value = spin();\n"
    )
    candidate = cpp(endless + IN_C.replace("BODY", ""))
    candidate["spec"]["compile_options"] = {
        "cflags": ["-fconstexpr-ops-limit=9223372036854775807", "-fconstexpr-loop-limit=2147483647"]
    }
    schedule = SCHEDULE | {"build_seconds": 1.0}
    result = guard.ask("screen", candidate=candidate, schedule=schedule)
    assert (result.verdict, result.stage) == ("REJECT", "build")
    assert result.reason in ("timeout", "build_failed"), result.detail
    _unharmed(guard)


def test_a_fork_bomb_is_held_and_swept_away(guard: Guard) -> None:
    bomb = (
        "import os\nwhile True:\n    try:\n        os.fork()\n    except OSError:\n        pass\n"
    )
    result = judged(guard, python("import torch\n" + bomb + RUN))
    assert result.verdict == "REJECT"
    assert result.reason in ("timeout", "limit_passed", "crashed"), result.detail
    assert _spent(result) < LATE + 20
    _unharmed(guard)
    assert len(snapshot(guard.process.pid, guard.cache).processes) < 10


def test_output_that_is_no_text_is_told_and_judged(guard: Guard) -> None:
    noisy = "import os, torch\nos.write(1, bytes(range(256)) * 99)\nos.write(2, b'\\xff\\x00\\x1b[2J')\n"
    result = judged(guard, python(noisy + RUN))
    assert result.stages["correctness"].state == "passed", result.detail


ENDINGS = {
    "stop": ("import os, signal\nos.kill(os.getpid(), signal.SIGSTOP)\n", "tampering"),
    "exit": ("import os\nos._exit(0)\n", "crashed"),
    "signal": ("import os, signal\nos.kill(os.getpid(), signal.SIGTERM)\n", "crashed"),
    "replaced": ("import os\nos.execv('/usr/bin/sleep', ['sleep', '600'])\n", "timeout"),
}


@pytest.mark.parametrize("name", ENDINGS)
def test_an_odd_end_at_import_has_its_reason_and_harms_nobody(lab: Laboratory, name: str) -> None:
    source, reason = ENDINGS[name]
    assert lab.fault("import torch\n" + source + RUN, start_seconds=2.0).reason == reason
    _works(lab, "")


def test_changed_folder_mask_and_signals_disturb_nobody(lab: Laboratory) -> None:
    odd = (
        "import os, signal\nos.chdir('/')\nos.umask(0o777)\n"
        "for number in range(1, 65):\n"
        "    try:\n        signal.signal(number, signal.SIG_IGN)\n"
        "    except (OSError, ValueError):\n        pass\n"
        "signal.pthread_sigmask(signal.SIG_BLOCK, range(1, 65))\n"
    )
    _works(lab, odd)
    _works(lab, "")


def test_a_process_that_stays_is_found_wherever_it_hides(lab: Laboratory) -> None:
    for start in (
        "import subprocess\nsubprocess.Popen(['sleep', '600'], start_new_session=True)\n",
        "import os\nif os.fork() == 0:\n    os.setsid()\n    if os.fork() == 0:\n"
        "        import time\n        time.sleep(600)\n    os._exit(0)\n",
        # Its first thread ends, so that it looks dead.
        "import os, threading, time, ctypes\nif os.fork() == 0:\n"
        "    threading.Thread(target=time.sleep, args=(600,)).start()\n"
        "    ctypes.CDLL(None).syscall(60, 0)\n",
    ):
        lab.notes.clear()
        assert lab.fault("import torch\n" + start + RUN).reason == "extra_process", start
        assert any("live_child" in note for note in lab.notes)
    _works(lab, "")


def test_a_process_that_stays_is_reverted_at_the_gate_too(guard: Guard) -> None:
    start = "import subprocess\nsubprocess.Popen(['sleep', '600'])\n"
    result = judged(guard, python("import torch\n" + start + RUN))
    assert (result.verdict, result.reason) == ("REVERT", "extra_process")
    assert any("live_child" in seen for seen in result.observations)
    _unharmed(guard)


def test_a_process_that_has_ended_is_nobodys_business(lab: Laboratory) -> None:
    for start in (
        "import subprocess\nsubprocess.run(['true'])\n",
        "import os\npid = os.fork()\nif pid == 0:\n    os._exit(0)\nos.waitpid(pid, 0)\n",
        # Never waited for.
        "import os, time\npid = os.fork()\nif pid == 0:\n    os._exit(0)\n"
        "os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)\n",
    ):
        _works(lab, start)


def test_a_process_that_is_started_by_a_call_is_an_extra_one(lab: Laboratory) -> None:
    source = (
        "import subprocess, torch\n\ndef run(x, scale):\n"
        "    subprocess.Popen(['sleep', '600'])\n    return torch.tanh(x) * scale\n"
    )
    assert lab.fault(source).reason == "extra_process"


def test_a_child_that_works_on_another_core_is_seen(lab: Laboratory) -> None:
    source = (
        "import os, torch\n\ndef run(x, scale):\n    if os.fork() == 0:\n"
        "        while True:\n            pass\n    return torch.tanh(x) * scale\n"
    )
    assert lab.fault(source).reason == "extra_process"


def test_memory_of_many_processes_together_is_bounded(lab: Laboratory) -> None:
    source = (
        "import os, time, torch\nfor _ in range(12):\n    if os.fork() == 0:\n"
        "        keep = bytearray(1 << 31)\n        time.sleep(600)\n        os._exit(0)\n"
        "time.sleep(600)\n" + RUN
    )
    with pytest.raises(SolutionFault) as failure:
        lab.start(source, start_seconds=10.0)
    assert failure.value.reason in ("crashed", "timeout", "limit_passed")


def test_nothing_is_left_behind(guard: Guard) -> None:
    _unharmed(guard)
    before = snapshot(guard.process.pid, guard.cache)
    for source, _ in AT_IMPORT.values():
        if "sleep(600)" not in source and "while True:\n    pass" not in source:
            judged(guard, python("import torch\n" + source + RUN))
    _unharmed(guard)
    after = snapshot(guard.process.pid, guard.cache)
    assert (after.processes, after.files, after.unexpected) == (before.processes, before.files, ())
    assert after.descriptors <= before.descriptors + 2
    assert after.resident < before.resident + (256 << 20)


def test_the_guards_own_files_and_groups_go_with_it(tmp_path: Path) -> None:
    (tmp_path / "tmp").mkdir()
    guard = Guard(tmp_path / "cache", TMPDIR=str(tmp_path / "tmp"))
    judged(guard, python(REFERENCE))
    assert list((tmp_path / "tmp").iterdir())
    pid = guard.process.pid
    guard.close()
    assert list((tmp_path / "tmp").iterdir()) == []
    assert list(Path("/sys/fs/cgroup").glob(f"**/kernelarc-{pid}-*")) == []


def test_what_a_killed_guard_left_goes_when_the_next_one_starts(tmp_path: Path) -> None:
    (tmp_path / "tmp").mkdir()
    killed = Guard(tmp_path / "cache", TMPDIR=str(tmp_path / "tmp"))
    judged(killed, python(REFERENCE))
    killed.process.kill()
    killed.close()
    left = list((tmp_path / "tmp").iterdir())
    assert left
    with Guard(tmp_path / "cache", TMPDIR=str(tmp_path / "tmp")) as following:
        judged(following, python(REFERENCE))
        assert not any(path.exists() for path in left)


def _works(lab: Laboratory, start: str) -> None:
    arm = lab.start("import torch\n" + start + RUN)
    for _ in range(3):
        lab.call(arm)
    arm.close()


def _unharmed(guard: Guard) -> None:
    result = judged(guard, python(REFERENCE))
    assert result.stages["correctness"].state == "passed", (result.reason, result.detail)


def _spent(result: Result) -> float:
    """Return the seconds of all stages: without the time another process held the device."""
    return sum(stage.seconds for stage in result.stages.values())


def test_a_builder_that_is_killed_is_refused_as_such_and_the_next_build_is_none_the_worse(
    guard: Guard,
) -> None:
    done = threading.Event()

    def kill_builders() -> None:
        while not done.wait(0.005):
            for pid in descendants(guard.process.pid):
                try:
                    words = Path(f"/proc/{pid}/cmdline").read_bytes()
                    if b"kernelarc_guard.compile_job" in words:
                        os.kill(pid, signal.SIGKILL)
                except (FileNotFoundError, ProcessLookupError):
                    continue

    candidate = cpp(IN_C.replace("BODY", "/* Killed once. */"))
    killer = threading.Thread(target=kill_builders)
    killer.start()
    try:
        answer = guard.answer("screen", candidate=candidate, correctness_only=True)
    finally:
        done.set()
        killer.join()
    assert isinstance(answer, Refusal) and answer.code == "builder_lost", answer
    assert "killed" in answer.error
    assert judged(guard, candidate, PATIENT_SECONDS).stage == "correctness"
