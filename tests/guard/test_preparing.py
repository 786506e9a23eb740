"""Building ahead through a real guard and real compilers: what is found later, and what is left: nothing."""

import json
import os
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from filelock import FileLock
from guard_process import DLPACK, REFERENCE, SCHEDULE, Guard, cpp, problem, python

from kernelarc_guard import build, cores
from kernelarc_guard.cache_limit import LOCKS
from kernelarc_guard.cores import allowed_cores
from kernelarc_guard.faults import Refused
from kernelarc_guard.prepare import prepare_in
from kernelarc_guard.preparing import Building, Preparing
from kernelarc_guard.processes import descendants
from kernelarc_guard.protocol import REQUEST
from kernelarc_guard.report import Outcome, Report
from kernelarc_guard.sandbox import find_sandbox
from kernelarc_guard.solution import make_solution

SLOW_TO_COMPILE = """
constexpr unsigned spin() {
    unsigned x = 1;
    for (unsigned long i = 0; i < 1000000000000ul; ++i) x = x * 3 + 1;
    return x;
}
constexpr unsigned value = spin();
extern "C" int run() { return value; }
"""
NO_LIMIT = ["-fconstexpr-ops-limit=999999999999999999", "-fconstexpr-loop-limit=2147483647"]
ENDLESS = cpp(SLOW_TO_COMPILE)
ENDLESS["spec"]["compile_options"] = {"cflags": NO_LIMIT}
DEADLINE = 60.0


@pytest.fixture(scope="module")
def guard(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guard]:
    """A guard that builds ahead on the first core, whatever is measured there; the last test kills it."""
    with Guard(tmp_path_factory.mktemp("cache"), f"--prepare-on={cores.ALL[0]}") as guard:
        yield guard


def variant(number: int, end: str = "return 0;") -> dict[str, Any]:
    """Return a C++ solution that no other test builds."""
    return cpp(DLPACK.replace("return 0;", f"x += {number} - {number}; {end}"))


def offer(guard: Guard, candidate: dict[str, Any], **more: Any) -> None:
    """Send a request to build ahead, which nobody answers."""
    body = asked(guard.cache, candidate) | more
    assert guard.process.stdin is not None
    guard.process.stdin.write(json.dumps(body).encode() + b"\n")
    guard.process.stdin.flush()


def asked(cache: Path, candidate: dict[str, Any]) -> dict[str, Any]:
    """Return a request to build ahead."""
    body = {"id": "next", "op": "prepare", "cache_dir": str(cache), "schedule": SCHEDULE}
    return body | {"definition": problem()["definition"], "candidate": candidate}


def wait_until(seen: Any) -> None:
    """Look until something is so."""
    limit = time.monotonic() + DEADLINE
    while not seen():
        assert time.monotonic() < limit
        time.sleep(0.01)


def checked(guard: Guard, candidate: dict[str, Any]) -> Any:
    """Judge a candidate up to correctness."""
    return guard.ask("screen", candidate=candidate, correctness_only=True)


def built(cache: Path) -> set[str]:
    return {entry.name for entry in (cache / "native").glob("*")}


def compiling(pid: int) -> list[int]:
    """Return the processes below another that compile."""
    return [one for one in descendants(pid) if _said(one, "comm").startswith("cc1plus")]


def preparer_of(pid: int) -> int:
    """Return the process below another that builds ahead, once that is what it runs."""
    own = [one for one in descendants(pid) if "kernelarc_guard.preparer\0" in _said(one, "cmdline")]
    return own[0]


def _runs(pid: int) -> bool:
    said = _said(pid, "stat")
    return bool(said) and said.rpartition(")")[2].split()[0] not in "ZX"


def _said(pid: int, what: str) -> str:
    try:
        return Path(f"/proc/{pid}/{what}").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return ""


def test_what_was_built_ahead_is_found_and_is_the_same_binary(guard: Guard, tmp_path: Path) -> None:
    before = built(guard.cache)
    offer(guard, variant(1))
    wait_until(lambda: built(guard.cache) - before)
    found = checked(guard, variant(1))
    assert found.stages["correctness"].state == "passed"
    alone = guard.ask(
        "screen", candidate=variant(1), correctness_only=True, cache_dir=str(tmp_path)
    )
    assert found.binary == alone.binary
    assert found.stages["build"].seconds < alone.stages["build"].seconds / 3


def test_a_judgement_waits_for_what_is_being_built_ahead(guard: Guard) -> None:
    before = built(guard.cache)
    offer(guard, variant(2))
    result = checked(guard, variant(2))
    assert result.stages["correctness"].state == "passed"
    assert len(built(guard.cache) - before) == 1


def test_what_does_not_compile_is_rejected_as_if_nothing_had_been_built_ahead(
    guard: Guard, tmp_path: Path
) -> None:
    broken, before = variant(3, "return zero;"), built(guard.cache)
    offer(guard, broken)
    offer(guard, variant(4))
    wait_until(lambda: built(guard.cache) - before)
    told = checked(guard, broken)
    alone = guard.ask("screen", candidate=broken, cache_dir=str(tmp_path))
    assert (told.verdict, told.reason, told.stage) == ("REJECT", "build_failed", "build")
    assert (told.detail, told.build) == (alone.detail, alone.build)


def test_what_the_policy_refuses_and_what_is_no_request_build_nothing(guard: Guard) -> None:
    before = built(guard.cache)
    forbidden = variant(5, 'system("true"); ptrace(0); return 0;')
    offer(guard, forbidden)
    offer(guard, {"name": "nothing"})
    offer(guard, variant(6), device="cuda:99")
    offer(guard, variant(7))
    wait_until(lambda: built(guard.cache) - before)
    refused = checked(guard, forbidden)
    assert (refused.verdict, refused.stage) == ("REJECT", "policy")
    assert len(built(guard.cache) - before) == 1


def test_a_stuck_build_ahead_is_ended_and_decides_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from kernelarc_guard.backend import CpuBackend
    from kernelarc_guard.contestants import Contestants

    monkeypatch.setattr(build, "_GRACE_SECONDS", 0.2)
    sandbox, preparing = find_sandbox(), Preparing(frozenset(cores.ALL))
    preparing.know("cpu", Building("", beside=False), sandbox)
    try:
        preparing.offer(asked(tmp_path, ENDLESS))
        wait_until(lambda: compiling(os.getpid()))
        stopped = preparer_of(os.getpid())
        below = [stopped, *descendants(stopped)]
        os.kill(stopped, signal.SIGSTOP)
        body = asked(tmp_path, ENDLESS) | {"op": "screen", "problem": problem()}
        body |= {"record": python(REFERENCE), "schedule": SCHEDULE | {"build_seconds": 0.5}}
        del body["definition"]
        request = REQUEST.validate_python(body)
        report = Report("r1", "screen", lambda progress: None)
        contestants = Contestants(request, report, CpuBackend(), tmp_path, sandbox, preparing)
        with pytest.raises(Outcome, match=r"the compiler took more than 0\.5 s"):
            contestants.build_all()
        wait_until(lambda: not any(_runs(pid) for pid in below))
    finally:
        assert not preparing.end(), "it was ended when it was found stuck"


@pytest.mark.parametrize("role", ["candidate", "record"])
def test_what_a_stuck_process_of_others_holds_is_refused_and_no_verdict(
    role: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from kernelarc_guard.backend import CpuBackend
    from kernelarc_guard.contestants import Contestants

    monkeypatch.setattr(build, "_GRACE_SECONDS", 0.2)
    sandbox, arms = find_sandbox(), {"candidate": python(REFERENCE), "record": python(REFERENCE)}
    arms[role] = python(REFERENCE + "\n# Held.\n")
    held = make_solution(arms[role])
    made = build.build(held, tmp_path, seconds=60, memory_bytes=4 << 30, sandbox=sandbox)
    body = {"id": "s1", "op": "screen", "cache_dir": str(tmp_path), "problem": problem()} | arms
    request = REQUEST.validate_python(body | {"schedule": SCHEDULE | {"build_seconds": 0.5}})
    report = Report("r1", "screen", lambda progress: None)
    contestants = Contestants(request, report, CpuBackend(), tmp_path, sandbox, Preparing())
    key = made.root.parent.name
    with FileLock(tmp_path / LOCKS / f"{key}.lock"), pytest.raises(Refused) as refused:
        contestants.build_all()
    assert refused.value.code == "builder_lost" and "for too long" in str(refused.value)


def test_without_cores_for_it_nothing_is_built_ahead_and_that_is_said_once(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cores, "ALL", (0, 1))
    preparing = Preparing()
    preparing.offer(asked(tmp_path, variant(8)))
    preparing.know("cpu", Building("90a", beside=True), find_sandbox())
    preparing.offer(asked(tmp_path, variant(9)))
    assert not preparing.end(), "there is no process to end"
    said = capfd.readouterr().err
    assert said.count("nothing is built ahead for cpu: there are too few cores") == 1


def test_a_machine_on_which_no_process_starts_only_keeps_it_from_building_ahead(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "executable", str(tmp_path / "nothing"))
    preparing = Preparing(frozenset(cores.ALL))
    preparing.know("cpu", Building("", beside=False), find_sandbox())
    preparing.offer(asked(tmp_path, variant(10)))
    assert not preparing.end(), "there is no process to end"
    assert "nothing is built ahead: [Errno 2]" in capfd.readouterr().err


@pytest.mark.parametrize("count", [1, 2, 3, 4, 6, 16, 64])
def test_no_core_of_what_is_timed_is_a_builders(
    count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cores, "ALL", tuple(range(count)))
    for threads in range(1, count + 1):
        ahead = cores.ahead_cores(threads)
        timed = cores.runner_cores(threads) | cores.other_cores(threads)
        assert ahead.isdisjoint(timed | set(cores.PinnedAway(threads)._mine))
        for slot in range(4):
            assert ahead.isdisjoint(cores.starting_cores(threads, slot))
    assert bool(cores.ahead_cores(1)) == (count >= 4)
    assert not cores.ahead_cores(count)


def test_only_a_request_to_build_ahead_is_taken_for_one() -> None:
    assert prepare_in(b'{"op":"prepare","id":"a"}\n') == {"op": "prepare", "id": "a"}
    for line in (b'{"op":"screen","x":"prepare"}', b'["prepare"]', b'{"op":"prepare"', b"\xff"):
        assert prepare_in(line) is None


@pytest.mark.parametrize("text", ["", "a", "1-", "-1", "99999", "2-1"])
def test_cores_that_are_none_are_refused(text: str) -> None:
    with pytest.raises(ValueError):
        allowed_cores(text)
    assert allowed_cores(f"{cores.ALL[0]}") == {cores.ALL[0]}


def test_builders_keep_to_their_cores_and_end_with_a_guard_that_is_killed(guard: Guard) -> None:
    offer(guard, ENDLESS)
    wait_until(lambda: compiling(guard.process.pid))
    below = descendants(guard.process.pid)
    preparer = preparer_of(guard.process.pid)
    building = [preparer, *descendants(preparer)]
    assert all(os.sched_getaffinity(pid) == {cores.ALL[0]} for pid in building)
    guard.process.kill()
    guard.process.wait()
    wait_until(lambda: not any(_runs(pid) for pid in below))
