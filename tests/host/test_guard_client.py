"""The client of the guard's process, against real processes that misbehave."""

import asyncio
import sys
from collections.abc import Callable
from pathlib import Path

import anyio
import pytest
from host_places import make_problem, scripted_guard

from kernelarc_guard.protocol import Calibrate, Progress
from kernelarc_guard.solution import reference_solution
from kernelarc_mcp.host import guard_client, guard_process
from kernelarc_mcp.host.guard_client import (
    DeviceLost,
    GuardClient,
    GuardDied,
    GuardError,
    GuardNotStarted,
    GuardRefused,
)

pytestmark = pytest.mark.anyio


def request(tmp_path: Path) -> Calibrate:
    problem = make_problem()
    return Calibrate(
        id="one",
        cache_dir=str(tmp_path / "cache"),
        problem=problem,
        record=reference_solution(problem.definition),
        pairs=2,
    )


def script(tmp_path: Path, *lines: str) -> str:
    path = tmp_path / "guard"
    path.write_text("\n".join([f"#!{sys.executable} -I", "import os, sys, time", *lines]) + "\n")
    path.chmod(0o755)
    return str(path)


def after_turns_of_the_loop(turns: int, act: Callable[[], None]) -> None:
    if turns == 0:
        act()
    else:
        asyncio.get_running_loop().call_soon(after_turns_of_the_loop, turns - 1, act)


async def test_one_process_serves_several_requests_and_ends_with_the_client(
    tmp_path: Path,
) -> None:
    async with GuardClient(scripted_guard(tmp_path), tmp_path / "guard.log") as guard:
        assert guard.pid is None
        first = await guard.judge(request(tmp_path), deadline=60)
        pid = guard.pid
        second = await guard.judge(request(tmp_path), deadline=60)
        assert first.op == second.op == "calibrate" and guard.pid == pid is not None
    assert guard.pid is None and not Path(f"/proc/{pid}").exists()
    assert "scripted guard" in (tmp_path / "guard.log").read_text()


@pytest.mark.parametrize("turns", range(5))
async def test_a_process_whose_start_is_cancelled_is_handed_over_to_be_ended(
    tmp_path: Path, turns: int
) -> None:
    process = None
    with anyio.CancelScope() as scope:
        after_turns_of_the_loop(turns, scope.cancel)
        process = await guard_process.start([scripted_guard(tmp_path)])
        await anyio.sleep_forever()
    assert process is not None
    await guard_process.end(process, None, 10.0)
    assert process.returncode is not None and not Path(f"/proc/{process.pid}").exists()


async def test_an_idle_guard_ends_with_a_client_that_is_left_because_of_a_cancellation(
    tmp_path: Path,
) -> None:
    guard = GuardClient(scripted_guard(tmp_path))
    with anyio.CancelScope() as scope:
        async with guard:
            await guard.start()
            pid = guard.pid
            scope.cancel()
            await anyio.sleep_forever()
    assert pid is not None and guard.pid is None and not Path(f"/proc/{pid}").exists()


async def test_a_guard_that_dies_is_named_with_its_end_and_started_again(tmp_path: Path) -> None:
    path = script(tmp_path, "sys.stdin.readline()", "os.kill(os.getpid(), 11)")
    async with GuardClient(path) as guard:
        for _ in range(2):
            with pytest.raises(GuardDied, match="SIGSEGV"):
                await guard.judge(request(tmp_path), deadline=60)


async def test_a_guard_that_cannot_be_started_is_a_guard_that_died(tmp_path: Path) -> None:
    async with GuardClient(str(tmp_path / "nothing")) as guard:
        with pytest.raises(GuardDied, match="cannot be started"):
            await guard.judge(request(tmp_path), deadline=60)


PROGRESS = '{"event":"progress","id":"one","stage":"policy","done":%d,"of":3,"message":"%s"}'


def say(done: int, message: str) -> str:
    return f"print({PROGRESS % (done, message)!r}, flush=True)"


async def test_the_deadline_stands_still_while_the_guard_waits_for_the_device(
    tmp_path: Path,
) -> None:
    refusal = '{"event":"refusal","id":"one","error":"so it came this far"}'
    held = [say(2, "device held"), f"print({refusal!r}, flush=True)"]
    wait = "time.sleep(1.0)"
    path = script(tmp_path, say(1, "waiting for the device"), wait, *held, "sys.stdin.read()")
    async with GuardClient(path, grace=0.1) as guard:
        with pytest.raises(GuardRefused, match="this far"):
            await guard.judge(request(tmp_path), deadline=0.7)


async def test_the_deadline_runs_again_once_the_device_is_held(tmp_path: Path) -> None:
    said = [say(1, "waiting for the device"), say(2, "device held")]
    path = script(tmp_path, *said, "time.sleep(600)")
    async with GuardClient(path, grace=0.1) as guard:
        with pytest.raises(GuardDied, match="no answer within"):
            await guard.judge(request(tmp_path), deadline=0.7)


async def test_a_guard_past_its_deadline_is_killed(tmp_path: Path) -> None:
    path = script(tmp_path, "time.sleep(600)")
    async with GuardClient(path, grace=0.1) as guard:
        with pytest.raises(GuardDied, match=r"no answer within 0\.5 seconds"):
            await guard.judge(request(tmp_path), deadline=0.5)
        assert guard.pid is None


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("print('hello', flush=True)", "malformed"),
        ('print(\'{"event": "refusal", "id": "two", "error": "x"}\', flush=True)', "is for two"),
        ("sys.stdout.write('x' * 5000); sys.stdout.flush()", "longer than"),
    ],
)
async def test_a_guard_that_breaks_the_protocol_has_died(
    tmp_path: Path, line: str, says: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(guard_client, "MAX_LINE", 4000)
    path = script(tmp_path, "sys.stdin.readline()", line, "sys.stdin.read()")
    async with GuardClient(path) as guard:
        with pytest.raises(GuardDied, match=says):
            await guard.judge(request(tmp_path), deadline=60)


async def test_a_refusal_leaves_the_process_running_and_signs_of_life_come_through(
    tmp_path: Path,
) -> None:
    progress = Progress(id="one", stage="build", done=1, of=2, message="m").model_dump_json()
    path = script(
        tmp_path,
        "for line in sys.stdin:",
        f"    print({progress!r})",
        '    print(\'{"event": "refusal", "id": "one", "error": "no such device"}\', flush=True)',
    )
    seen: list[Progress] = []
    async with GuardClient(path) as guard:
        for _ in range(2):
            with pytest.raises(GuardRefused, match="no such device"):
                await guard.judge(request(tmp_path), deadline=60, on_progress=seen.append)
        assert len(seen) == 2 and guard.pid is not None


async def test_messages_without_end_neither_block_the_guard_nor_fill_the_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(guard_process, "LOG_BYTES", 100_000)
    path = script(
        tmp_path,
        "sys.stdin.readline()",
        "for _ in range(100): sys.stderr.write('e' * 9999 + '\\n')",
        'print(\'{"event": "refusal", "id": "one", "error": "done"}\', flush=True)',
        "sys.stdin.read()",
    )
    log = tmp_path / "guard.log"
    async with GuardClient(path, log) as guard:
        with pytest.raises(GuardRefused, match="done"):
            await guard.judge(request(tmp_path), deadline=60)
    total = sum(file.stat().st_size for file in tmp_path.glob("guard*.log"))
    assert 0 < total < 500_000


async def test_a_cancelled_request_ends_the_process_it_was_sent_to(tmp_path: Path) -> None:
    path = script(
        tmp_path, "sys.stdin.readline()", "print('x' * 9, end='', flush=True)", "sys.stdin.read()"
    )
    async with GuardClient(path) as guard, anyio.create_task_group() as group:
        group.start_soon(lambda: guard.judge(request(tmp_path), deadline=60))
        with anyio.fail_after(60):
            while guard.pid is None:
                await anyio.lowlevel.checkpoint()
        pid = guard.pid
        group.cancel_scope.cancel()
    assert guard.pid is None and not Path(f"/proc/{pid}").exists()


async def test_messages_that_no_log_can_take_are_told_and_the_guard_goes_on(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    log = tmp_path / "absent" / "guard.log"
    async with GuardClient(scripted_guard(tmp_path), log) as guard:
        await guard.judge(request(tmp_path), deadline=60)
    assert "scripted guard" in caplog.text and str(log) in caplog.text


@pytest.mark.parametrize(
    ("error", "sentence"),
    [
        (GuardRefused("the reference raised"), "The guard refused: the reference raised."),
        (GuardDied("no answer within 5 seconds"), "The guard died: no answer within 5 seconds."),
        (GuardNotStarted("cannot be started"), "The guard cannot be started."),
        (DeviceLost("gpu0 is gone"), "Gpu0 is gone."),
    ],
)
async def test_what_went_wrong_reads_as_a_sentence_and_within_one(
    error: GuardError, sentence: str
) -> None:
    assert error.sentence == sentence
    assert error.words == sentence[0].lower() + sentence[1:-1]
