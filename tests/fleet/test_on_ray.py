"""Real Ray nodes on this machine, with guards that do what candidates ask of them."""

import json
import os
import signal
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import own_device
import pytest
from fleet_builders import (
    a_host_that_only_builds_fills_the_cache_of_who_judges_and_holds_nobody_up,
)
from fleets import Fleet, fleet_in, guard_of, parent_of, scripted_guard, wait_until
from host_places import make_campaign, make_problem, opened, planned

from kernelarc_guard.protocol import Calibrate, Lease, Progress, Result, Schedule, Screen
from kernelarc_guard.solution import Solution, make_solution, reference_solution
from kernelarc_mcp.host.dispatcher import Dispatcher
from kernelarc_mcp.host.fleet_client import FleetClient
from kernelarc_mcp.host.guard_client import DeviceLost, GuardClient, GuardDied, GuardRefused
from kernelarc_mcp.host.judging import Executor
from kernelarc_mcp.host.verify import verify

pytest.importorskip("ray", reason="Ray is not installed: pip install 'kernelarc-mcp[ray]'")
pytestmark = pytest.mark.anyio
PROBLEM = make_problem()
DEADLINE = 120.0


@pytest.fixture
def anyio_backend() -> str:
    """Return the servers' own loop."""
    return "asyncio"


async def test_a_fleet_judges_as_one_guard_does_and_outlives_its_parts_but_the_head(
    tmp_path: Path,
) -> None:
    # One test: it takes half a minute to start the nodes, and the last steps end them.
    with fleet_in(tmp_path) as fleet:
        for name in ("head", "host"):
            guard = scripted_guard(tmp_path, name)
            given = ["--device", "cpu", "--guard-python", guard]
            # The head's node lends a CPU to whoever offers a build slot there.
            fleet.add(name, *given, *["--", "--num-cpus=1"] * (name == "head"), head=name == "head")
        fleet.wait_offered("head", "host")
        nice = os.getpriority(os.PRIO_PROCESS, guard_of(str(tmp_path / "guard-head")))
        assert nice == os.getpriority(os.PRIO_PROCESS, 0), "Ray lowers its workers' priority"
        await a_campaign_has_the_same_verdicts_on_a_fleet_as_on_a_guard_of_its_own(fleet)
        await a_real_guard_gives_the_same_verdicts_through_ray(fleet)
        log = tmp_path / "standin.log"
        async with FleetClient(fleet.standin("--patience", "2"), log) as client:
            await wait_lanes(client, 2)
            await a_guard_that_dies_or_blames_the_candidate_is_told_as_that(client)
            await a_guard_that_refuses_is_tried_elsewhere_and_then_believed(client)
            await a_request_whose_deadline_passes_is_ended_and_its_device_is_free_again(client)
            await a_request_is_begun_anew_elsewhere_when_its_actor_is_killed(fleet, client)
            await a_host_that_dies_is_told_and_its_request_is_begun_anew_elsewhere(fleet, client)
            await a_lost_head_ends_the_stand_in_with_a_clear_word(fleet, client)


async def wait_lanes(client: FleetClient, lanes: int) -> None:
    with anyio.fail_after(DEADLINE):
        seen = -1
        while seen != lanes:
            seen = await client.wait_lanes(seen)


def make_candidate(content: str) -> Solution:
    spec = {
        "languages": ["pytorch"],
        "entry_point": "k.py::run",
        "destination_passing_style": False,
    }
    sources = [{"path": "k.py", "content": content}]
    return make_solution({"name": "k", "definition": "add", "spec": spec, "sources": sources})


def screen(subject: str, plan: str) -> Screen:
    record = reference_solution(PROBLEM.definition)
    return Screen(
        id=f"{subject}-screen",
        cache_dir="/nowhere/on/the/server",
        problem=PROBLEM,
        record=record,
        candidate=make_candidate(planned(1, plan)),
    )


def hears(marks: list[str]) -> Callable[[Progress], None]:
    return lambda progress: marks.append(progress.message)


PLANS = ("wrong", "broken", "gain:-50", "gain:20", "gain:0.1", "gain:9", "bully:30", "instant")


async def judged(folder: Path, executor: Executor | str) -> tuple[dict[str, object], list[Lease]]:
    """Return what a campaign of two agents makes of PLANS, and when devices were held."""
    make_campaign(folder, in_flight=4, canary_rate=0.0)
    with opened(folder) as host:
        agents = dict(zip(PLANS, "ada bob".split() * 4, strict=True))
        tickets = {
            plan: host.submit(agent, source=planned(number, plan)).ticket
            for number, (plan, agent) in enumerate(agents.items())
        }
        await Dispatcher(host, executor).run_until_idle()
        views = {plan: host.submission(agents[plan], tickets[plan]) for plan in PLANS}
        with host.campaign.journal.reading() as state:
            assert [state.attempts_left(agent) for agent in ("ada", "bob")] == [6, 6]
        rows = host.campaign.journal.ledger.rows_after(0)
        results = [json.loads(row.body).get("result") for row in rows]
    assert verify(folder) == []
    leases = [Lease.model_validate(one["lease"]) for one in results if one and one["lease"]]
    return {plan: (one.verdict, one.reason) for plan, one in views.items()}, leases


async def a_campaign_has_the_same_verdicts_on_a_fleet_as_on_a_guard_of_its_own(
    fleet: Fleet,
) -> None:
    local, _ = await judged(fleet.folder / "local", scripted_guard(fleet.folder, "own"))
    on_ray = FleetClient(fleet.standin(), fleet.folder / "standin.log")
    far, leases = await judged(fleet.folder / "ray", on_ray)
    assert far == local and len(set(local.values())) > 5
    assert {lease.unit for lease in leases} == {"head:cpu", "host:cpu"}
    assert {lease.device for lease in leases} == {"cpu"} and all(one.machine for one in leases)


REAL = {
    "right": "def run(x, y):\n    return x + y\n",
    "wrong": "def run(x, y):\n    return x - y\n",
    "broken": "def run(x, y:\n    return x + y\n",
    "slow": "def run(x, y):\n    for _ in range(2000):\n        z = x + y\n    return z\n",
}


async def a_real_guard_gives_the_same_verdicts_through_ray(fleet: Fleet) -> None:
    python = own_device.guard_python()
    given = ["--device", "cpu", "--guard-python", python, "--no-node", "--namespace", "real"]
    worker = fleet.add("real", *given)
    schedule = Schedule(calls=2, warmup_calls=1, evict_bytes=0)
    record = reference_solution(PROBLEM.definition)
    shared: dict[str, Any] = {
        "cache_dir": str(fleet.folder / "own-cache"),
        "schedule": schedule,
        "problem": PROBLEM,
        "record": record,
    }
    far = FleetClient(fleet.standin("--namespace", "real"), fleet.folder / "standin.log")
    async with GuardClient(python) as near, far:
        calibrate = Calibrate(id="calibrate", pairs=4, **shared)
        calibration = (await near.judge(calibrate, deadline=DEADLINE)).calibration
        told: dict[str, list[tuple[object, ...]]] = {"near": [], "far": []}
        await wait_lanes(far, 1)
        for name, body in REAL.items():
            asked = Screen(
                id=f"{name}-screen",
                candidate=make_candidate(f"import torch\n\n\n{body}"),
                calibration=calibration,
                correctness_only=name == "right",
                **shared,
            )
            for who, client in (("near", near), ("far", far)):
                result = await client.judge(asked, deadline=DEADLINE)
                told[who].append((result.stage, result.verdict, result.reason))
                assert result.calibration in (None, calibration)
        cache = fleet.folder / "cache" / "cache"
        await a_host_that_only_builds_fills_the_cache_of_who_judges_and_holds_nobody_up(
            fleet, far, shared, cache
        )
    fleet.workers.pop("builds").stop()
    worker.stop()
    assert told["near"] == told["far"]
    assert [verdict for _, verdict, _ in told["near"]] == [None, "REVERT", "REJECT", "REVERT"]


async def a_guard_that_dies_or_blames_the_candidate_is_told_as_that(
    client: FleetClient,
) -> None:
    with pytest.raises(GuardDied, match="exit status 9"):
        await client.judge(screen("b0", "die"), deadline=DEADLINE)
    with pytest.raises(GuardRefused, match="builds the candidate"):
        await client.judge(screen("b1", "loses_builder"), deadline=DEADLINE)
    result = await client.judge(screen("b2", "wrong"), deadline=DEADLINE)
    assert result.reason == "wrong_result"


async def a_guard_that_refuses_is_tried_elsewhere_and_then_believed(
    client: FleetClient,
) -> None:
    # It refuses four times, and there are two devices.
    for _ in range(2):
        with pytest.raises(GuardRefused, match="the nursery does not start"):
            await client.judge(screen("c0", "refuse_often"), deadline=DEADLINE)
    result = await client.judge(screen("c2", "refuse_often"), deadline=DEADLINE)
    assert result.decision is not None


async def a_request_whose_deadline_passes_is_ended_and_its_device_is_free_again(
    client: FleetClient,
) -> None:
    with pytest.raises(GuardDied, match="no answer within 1"):
        await client.judge(screen("d0", "hang_once"), deadline=1.0)
    async with anyio.create_task_group() as group:
        for number in range(2):
            ask = partial(client.judge, screen(f"d{number + 1}", "wrong"), deadline=DEADLINE)
            group.start_soon(ask)


async def a_request_is_begun_anew_elsewhere_when_its_actor_is_killed(
    fleet: Fleet, client: FleetClient
) -> None:
    marks: list[str] = []
    result: list[Result] = []

    async def ask() -> None:
        request = screen("e0", "hang_once")
        heard = hears(marks)
        result.append(await client.judge(request, deadline=DEADLINE, on_progress=heard))

    async with anyio.create_task_group() as group:
        group.start_soon(ask)
        with anyio.fail_after(DEADLINE):
            while not marks or not busy(client):
                await anyio.sleep(0.01)
        (host,) = busy(client)
        guard = guard_of(str(fleet.folder / f"guard-{host}"))
        os.kill(parent_of(guard), signal.SIGKILL)
    lease = result[0].lease
    assert lease is not None and lease.unit != f"{host}:cpu"
    # Ray starts the actor again, and it is offered as before; the guard went with its actor.
    await wait_lanes(client, 2)
    with anyio.fail_after(DEADLINE):
        while Path(f"/proc/{guard}").exists():
            await anyio.sleep(0.05)


def busy(client: FleetClient) -> list[str]:
    """Return the hosts whose devices are at work."""
    return [one.host for one in client.devices if one.state == "busy"]


async def a_host_that_dies_is_told_and_its_request_is_begun_anew_elsewhere(
    fleet: Fleet, client: FleetClient
) -> None:
    marks: list[str] = []
    result: list[Result] = []

    async def ask(subject: str) -> None:
        request = screen(subject, "hang_once")
        heard = hears(marks)
        with suppress(GuardDied):
            result.append(await client.judge(request, deadline=DEADLINE, on_progress=heard))

    async with anyio.create_task_group() as group:
        for number in range(2):
            group.start_soon(ask, f"f{number}")
        with anyio.fail_after(DEADLINE):
            while len(marks) < 2:
                await anyio.sleep(0.01)
        fleet.workers["host"].kill()
        await wait_lanes(client, 1)
        # The other one hangs on the head's device: its guard dies, which is told as that.
        os.kill(guard_of(str(fleet.folder / "guard-head")), signal.SIGKILL)
    assert len(result) == 1 and result[0].lease is not None
    assert result[0].lease.unit == "head:cpu"


async def a_lost_head_ends_the_stand_in_with_a_clear_word(
    fleet: Fleet, client: FleetClient
) -> None:
    fleet.workers["head"].kill()
    with pytest.raises(
        DeviceLost, match=r"^the Ray head at .* does not answer|^the Ray cluster is lost"
    ):
        await wait_lanes(client, 2)
    log = fleet.folder / "standin.log"
    wait_until("the reason is logged", lambda: "Ray head" in log.read_text(), 10.0)
