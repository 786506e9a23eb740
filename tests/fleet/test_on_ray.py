"""Real Ray nodes on this machine, with guards that do what candidates ask of them."""

import os
import signal
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import pytest
from fleets import Fleet, fleet_in, guard_of, parent_of, scripted_guard, wait_until
from host_places import kernel, make_problem

from kernelarc_guard.protocol import Calibrate, Progress, Result, Screen
from kernelarc_guard.solution import Solution, make_solution, reference_solution
from kernelarc_mcp.host.fleet_client import FleetClient
from kernelarc_mcp.host.guard_client import DeviceLost, GuardDied, GuardRefused

pytest.importorskip("ray", reason="Ray is not installed: pip install 'kernelarc-mcp[ray]'")
pytestmark = pytest.mark.anyio
PROBLEM = make_problem()
DEADLINE = 120.0


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    """Return the servers' own loop."""
    return "asyncio"


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    """Yield a head that offers a device, and another host that does."""
    folder = tmp_path_factory.mktemp("fleet")
    with fleet_in(folder) as fleet:
        for name in ("head", "host"):
            guard = scripted_guard(folder, name)
            fleet.add(name, "--device", "cpu", "--guard-python", guard, head=name == "head")
        fleet.wait_offered("head", "host")
        yield fleet


@asynccontextmanager
async def client_of(fleet: Fleet, lanes: int, *more: str) -> AsyncIterator[FleetClient]:
    """Yield a client that sees as many devices."""
    async with FleetClient(fleet.standin(*more), fleet.folder / "standin.log") as client:
        with anyio.fail_after(DEADLINE):
            seen = -1
            while seen != lanes:
                seen = await client.wait_lanes(seen)
        yield client


def candidate(plan: str) -> Solution:
    spec = {
        "languages": ["pytorch"],
        "entry_point": "k.py::run",
        "destination_passing_style": False,
    }
    sources = [{"path": "k.py", "content": f"PLAN = {plan!r}\n{kernel(1)}"}]
    return make_solution({"name": plan, "definition": "add", "spec": spec, "sources": sources})


def screen(subject: str, plan: str) -> Screen:
    record = reference_solution(PROBLEM.definition)
    return Screen(
        id=f"{subject}-screen",
        cache_dir="/nowhere/on/the/server",
        problem=PROBLEM,
        record=record,
        candidate=candidate(plan),
    )


def hears(marks: list[str]) -> Callable[[Progress], None]:
    return lambda progress: marks.append(progress.message)


async def test_requests_are_judged_side_by_side_and_answered_as_they_were_asked(
    fleet: Fleet,
) -> None:
    results: dict[str, Result] = {}

    async def ask(client: FleetClient, subject: str, plan: str) -> None:
        results[plan] = await client.judge(screen(subject, plan), deadline=DEADLINE)

    async with client_of(fleet, 2) as client, anyio.create_task_group() as group:
        for number, plan in enumerate(("wrong", "broken", "gain:-50", "gain:20")):
            group.start_soon(ask, client, f"a{number}", plan)
    told = {plan: (one.verdict, one.reason) for plan, one in results.items()}
    assert told["wrong"] == ("REVERT", "wrong_result")
    assert told["broken"] == ("REJECT", "build_failed")
    assert told["gain:-50"] == ("REVERT", "slower") and told["gain:20"] == (None, None)
    leases = [one.lease for one in results.values() if one.lease is not None]
    assert {lease.unit for lease in leases} == {"head:cpu", "host:cpu"}
    assert {lease.device for lease in leases} == {"cpu"} and all(one.machine for one in leases)


async def test_a_guard_that_dies_is_told_as_that_and_not_tried_again(fleet: Fleet) -> None:
    async with client_of(fleet, 2) as client:
        with pytest.raises(GuardDied, match="exit status 9"):
            await client.judge(screen("b0", "die"), deadline=DEADLINE)
        with pytest.raises(GuardRefused, match="loses_builder|builds the candidate"):
            await client.judge(screen("b1", "loses_builder"), deadline=DEADLINE)
        result = await client.judge(screen("b2", "wrong"), deadline=DEADLINE)
        assert result.reason == "wrong_result"


async def test_a_guard_that_refuses_is_tried_elsewhere_and_then_believed(fleet: Fleet) -> None:
    async with client_of(fleet, 2) as client:
        with pytest.raises(GuardRefused, match="the nursery does not start"):
            await client.judge(screen("c0", "refuse_often"), deadline=DEADLINE)
        # Two devices refused it; another two do, and then it is judged.
        with pytest.raises(GuardRefused):
            await client.judge(screen("c1", "refuse_often"), deadline=DEADLINE)
        result = await client.judge(screen("c2", "refuse_often"), deadline=DEADLINE)
        assert result.decision is not None


async def test_a_request_whose_deadline_passes_is_ended_and_its_device_is_free_again(
    fleet: Fleet,
) -> None:
    async with client_of(fleet, 2) as client:
        with pytest.raises(GuardDied, match="no answer within 1"):
            await client.judge(screen("d0.", "hang_once"), deadline=1.0)
        async with anyio.create_task_group() as group:
            for number in range(2):
                ask = screen(f"d{number + 1}", "wrong")
                group.start_soon(lambda ask=ask: client.judge(ask, deadline=DEADLINE))


async def test_a_request_is_begun_anew_elsewhere_when_its_actor_is_killed(fleet: Fleet) -> None:
    async with client_of(fleet, 2) as client:
        marks: list[str] = []
        result: list[Result] = []

        async def ask() -> None:
            request = screen("e0", "hang_once")
            heard = hears(marks)
            result.append(await client.judge(request, deadline=DEADLINE, on_progress=heard))

        async with anyio.create_task_group() as group:
            group.start_soon(ask)
            with anyio.fail_after(DEADLINE):
                while not marks:
                    await anyio.sleep(0.01)
            (busy,) = [one.host for one in await busy_devices(client)]
            guard = guard_of(str(fleet.folder / f"guard-{busy}"))
            os.kill(parent_of(guard), signal.SIGKILL)
        lease = result[0].lease
        assert lease is not None and lease.unit != f"{busy}:cpu"
        # Ray starts the actor again, and it is offered as before.
        with anyio.fail_after(DEADLINE):
            seen = -1
            while seen != 2:
                seen = await client.wait_lanes(seen)
        assert not await alive(guard)


async def busy_devices(client: FleetClient) -> list[object]:
    with anyio.fail_after(DEADLINE):
        while not (busy := [one for one in client.devices if one.state == "busy"]):
            await anyio.sleep(0.01)
    return list(busy)


async def alive(process: int) -> bool:
    """Say whether a process is still there, waiting a moment for its end."""
    with anyio.move_on_after(20.0):
        while Path(f"/proc/{process}").exists():
            await anyio.sleep(0.05)
        return False
    return True


async def test_devices_of_other_versions_are_refused_with_what_differs(fleet: Fleet) -> None:
    guard = scripted_guard(fleet.folder, "older", torch="2.9.0")
    older = fleet.add("older", "--device", "cpu", "--guard-python", guard, "--no-node")
    fleet.wait_offered("older")
    async with client_of(fleet, 3) as client:
        asked = Calibrate(
            id="calibrate",
            cache_dir="/nowhere",
            problem=PROBLEM,
            record=reference_solution(PROBLEM.definition),
        )
        calibration = (await client.judge(asked, deadline=DEADLINE)).calibration
        assert calibration is not None
        with anyio.fail_after(DEADLINE):
            while client.lanes == 3:
                await client.wait_lanes(3)
        torch = calibration.toolchain["torch"]
        assert f"torch is {'2.9.0' if torch == '2.11.0' else '2.11.0'} there" in client.trouble
    older.stop()


async def test_a_host_that_dies_is_replaced_and_one_that_is_stopped_takes_its_device_along(
    fleet: Fleet,
) -> None:
    async with client_of(fleet, 2) as client:
        marks: list[str] = []
        result: list[Result] = []

        async def ask(subject: str) -> None:
            request = screen(subject, "hang_once")
            heard = hears(marks)
            result.append(await client.judge(request, deadline=DEADLINE, on_progress=heard))

        async with anyio.create_task_group() as group:
            for number in range(2):
                group.start_soon(ask, f"f{number}")
            with anyio.fail_after(DEADLINE):
                while len(marks) < 2:
                    await anyio.sleep(0.01)
            # One hangs on the head's device for good, the other loses its host.
            fleet.workers["host"].kill()
            with anyio.fail_after(DEADLINE):
                while client.lanes == 2:
                    await client.wait_lanes(2)
            guard = guard_of(str(fleet.folder / "guard-head"))
            os.kill(parent_of(guard), signal.SIGKILL)
        assert len(result) == 2


async def test_a_lost_head_ends_the_stand_in_with_a_clear_word(fleet: Fleet) -> None:
    async with client_of(fleet, 1, "--patience", "2") as client:
        fleet.workers["head"].kill()
        with pytest.raises(DeviceLost, match="exit status 3"), anyio.fail_after(DEADLINE):
            seen = 1
            while True:
                seen = await client.wait_lanes(seen)
    wait_until("the reason is logged", lambda: "Ray head" in log_of(fleet), 10.0)


def log_of(fleet: Fleet) -> str:
    return (fleet.folder / "standin.log").read_text()
