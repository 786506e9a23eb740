"""The client of a fleet's stand-in: which devices are lanes, and answers that are late, lost or nobody's."""

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import pytest
from host_places import make_problem

from kernelarc_guard.fleet_wire import subject
from kernelarc_guard.prepare import Prepare
from kernelarc_guard.protocol import Compare, Request
from kernelarc_guard.solution import reference_solution
from kernelarc_mcp.host.fleet_client import FleetClient
from kernelarc_mcp.host.guard_client import DeviceLost, GuardDied, GuardNotStarted, GuardRefused

pytestmark = pytest.mark.anyio

HEAD = """
import json, sys
heard = open({heard!r}, "a", buffering=1)
def say(event, **what):
    print(json.dumps({{"event": event}} | what), flush=True)
def devices(*models, state="ready", why=""):
    say("capacity", devices=[
        {{"name": f"g{{n}}", "model": m, "host": "h", "state": state, "why": why}}
        for n, m in enumerate(models)])
def next_line():
    line = sys.stdin.readline()
    heard.write(line)
    return json.loads(line) if line else sys.exit()
def result(id):
    say("result", id=id, op="compare", stage="timing")
"""


def client(folder: Path, program: str, **how: Any) -> FleetClient:
    """Return a client of a stand-in that runs `program`; what it hears goes to a file."""
    text = HEAD.format(heard=str(folder / "heard")) + program
    return FleetClient([sys.executable, "-I", "-c", text], folder / "log", grace=1.0, **how)


def heard(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "heard").read_text().splitlines()]


async def until(condition: Callable[[], bool]) -> None:
    with anyio.fail_after(60):
        while not condition():
            await anyio.sleep(0.01)


def request(id: str) -> Request:
    problem = make_problem()
    same = reference_solution(problem.definition)
    return Compare(id=id, cache_dir="c", problem=problem, record=same, candidate=same)


@pytest.mark.parametrize(
    ("program", "model", "lanes", "trouble"),
    [
        ("devices('a', 'a')", "", 2, ""),
        ("devices('a', 'b', 'a')", "a", 2, ""),
        ("devices('a', 'b')", "", 0, "devices of a and b: the campaign must name one"),
        ("devices('a')", "b", 0, "the fleet has no b, but a"),
        ("devices('a', state='refused', why='torch 2.1')", "a", 0, "g0 on h is refused: torch 2.1"),
        ("devices()", "", 0, "the fleet has no devices"),
        ("devices('a', state='refused', why='x')", "b", 0, "the fleet has no b at work; g0 on h"),
    ],
)
async def test_lanes_are_the_devices_of_the_campaigns_model_that_are_at_work(
    tmp_path: Path, program: str, model: str, lanes: int, trouble: str
) -> None:
    async with client(tmp_path, program + "\nnext_line()", model=model) as fleet:
        with anyio.move_on_after(60 if lanes else 0.0):
            await fleet.wait_lanes(0)
        async with anyio.create_task_group() as group:
            group.start_soon(fleet.wait_lanes, 99)  # starts it where it was not
            await until(lambda: fleet.words != "")
            group.cancel_scope.cancel()
        assert fleet.lanes == lanes and trouble in fleet.trouble
        assert bool(trouble) == bool(fleet.trouble)


async def test_answers_find_who_asked_and_one_that_nobody_waits_for_any_more_is_passed_over(
    tmp_path: Path,
) -> None:
    program = """
devices("a", "a")
first = next_line()["id"]
assert next_line() == {"op": "cancel", "id": first}
second, third = next_line()["id"], next_line()["id"]
result(first)
result(third)
say("refusal", id=second, error="not today", code="record_failed")
next_line()
"""
    async with client(tmp_path, program) as fleet:
        assert await fleet.wait_lanes(0) == 2
        async with anyio.create_task_group() as group:
            group.start_soon(lambda: fleet.judge(request("x-screen"), deadline=60))
            await until(lambda: len(heard(tmp_path)) == 1)
            group.cancel_scope.cancel()
        told: list[str] = []

        async def refused() -> None:
            with pytest.raises(GuardRefused, match="not today"):
                await fleet.judge(request("x-screen"), deadline=60)
            told.append("refused")

        with anyio.fail_after(60):
            async with anyio.create_task_group() as group:
                group.start_soon(refused)
                await until(lambda: len(heard(tmp_path)) == 3)
                assert (await fleet.judge(request("y"), deadline=60)).id == "y"
        assert told == ["refused"]
    ids = [line["id"] for line in heard(tmp_path) if line["op"] == "compare"]
    assert ids == ["x-screen.1", "x-screen.2", "y.3"]
    assert [subject(id) for id in ids] == [("x", "screen"), ("x", "screen"), ("y", "")]


async def test_what_is_next_in_line_is_sent_while_something_is_judged_and_not_answered(
    tmp_path: Path,
) -> None:
    program = """
say("capacity", devices=[{"name": "g0", "model": "a", "host": "h", "state": "ready"}], builders=[
    {"name": "b0", "model": "x", "host": "b", "state": "ready"},
    {"name": "b1", "model": "x", "host": "b", "state": "busy"},
    {"name": "c0", "model": "x", "host": "c", "state": "refused", "why": "C++ is GCC 4"}])
first = next_line()["id"]
assert next_line()["op"] == "prepare"
result(first)
next_line()
"""
    definition = make_problem().definition
    same = reference_solution(definition)
    ahead = Prepare(id="s002", cache_dir="c", definition=definition, candidate=same)
    async with client(tmp_path, program) as fleet:
        assert await fleet.wait_lanes(0) == 1
        said = "Fleet: 1 device on 1 host, 2 build slots on 1 host; build slots of c are refused: "
        assert fleet.words == f"{said}C++ is GCC 4."
        assert fleet.in_line == 4
        assert not await fleet.prepare(ahead), "it would be judged at once"
        async with anyio.create_task_group() as group:
            group.start_soon(lambda: fleet.judge(request("x"), deadline=60))
            await until(lambda: fleet.busy)
            assert await fleet.prepare(ahead)
        assert not fleet.busy
    assert [line["id"] for line in heard(tmp_path)] == ["x.1", "s002"]


async def test_the_deadline_begins_when_a_request_is_placed_and_then_it_is_taken_back(
    tmp_path: Path,
) -> None:
    program = """
import time
devices("a")
id = next_line()["id"]
time.sleep(0.5)  # longer than the deadline
say("placed", id=id, device="g0", host="h")
while True:
    next_line()
"""
    async with client(tmp_path, program) as fleet:
        await fleet.wait_lanes(0)
        with anyio.fail_after(60), pytest.raises(GuardDied, match=r"no answer within 0\.2"):
            await fleet.judge(request("x"), deadline=0.2)
        await until(lambda: {"op": "cancel", "id": "x.1"} in heard(tmp_path))
        assert fleet.lanes == 1


@pytest.mark.parametrize(
    ("last", "why"),
    [
        ("print('{', flush=True)", "an answer is malformed"),
        ("result('z.7')", "an answer is for z.7, which nobody asked"),
        ("sys.exit(3)", "its process ended: exit status 3"),
    ],
)
async def test_a_stand_in_that_loses_its_way_is_ended_and_the_next_one_is_started(
    tmp_path: Path, last: str, why: str
) -> None:
    async with client(tmp_path, f"devices('a')\nnext_line()\n{last}\nnext_line()") as fleet:
        for _ in range(2):
            with anyio.fail_after(60):
                assert await fleet.wait_lanes(0) == 1
                with pytest.raises(DeviceLost, match=why):
                    await fleet.judge(request("x"), deadline=60)
                with pytest.raises(DeviceLost, match=why):
                    await fleet.wait_lanes(1)
            with pytest.raises(DeviceLost, match="not running"):
                await fleet.judge(request("x"), deadline=60)


async def test_silence_is_no_trouble_at_first_and_why_a_stand_in_gives_up_is_said_until_the_fleet_is_there(
    tmp_path: Path,
) -> None:
    program = f"""
import pathlib
again = pathlib.Path({str(tmp_path / "again")!r})
if again.exists():
    next_line()
say("hindrance", why="no head at x:1")
again.touch()
sys.exit(3)
"""
    async with client(tmp_path, program, model="a") as fleet:
        assert fleet.trouble == ""
        with anyio.fail_after(60), pytest.raises(DeviceLost, match=r"^no head at x:1$") as lost:
            await fleet.wait_lanes(0)
        assert lost.value.words == fleet.trouble == "no head at x:1"
        with anyio.move_on_after(0.2):
            await fleet.wait_lanes(0)
        assert fleet.pid is not None and fleet.trouble == "no head at x:1", (
            "nothing better is known"
        )
    for usual, said in ((600.0, ""), (0.0, "the fleet did not answer yet")):
        async with client(tmp_path, "next_line()", usual=usual, model="a") as fleet:
            with anyio.move_on_after(0.2):
                await fleet.wait_lanes(0)
            assert fleet.pid is not None and fleet.trouble == said


async def test_what_was_ended_on_leaving_is_no_loss_for_whoever_enters_again(
    tmp_path: Path,
) -> None:
    fleet = client(tmp_path, "devices('a')\nnext_line()")
    ended: list[int] = []
    for _ in range(2):
        async with fleet:
            with anyio.fail_after(60):
                assert await fleet.wait_lanes(0) == 1
            assert fleet.pid is not None and fleet.pid not in ended
            ended.append(fleet.pid)
        assert fleet.pid is None
    assert not any(Path(f"/proc/{pid}").exists() for pid in ended)


async def test_a_stand_in_that_cannot_be_started_is_named(tmp_path: Path) -> None:
    async with FleetClient([str(tmp_path / "nothing")]) as fleet:
        with pytest.raises(GuardNotStarted, match=r"cannot be started \(.*nothing\)"):
            await fleet.wait_lanes(0)
