"""The broker behind connections that lose answers, so that calls come late, twice and in another order."""

import asyncio
import random
from contextlib import suppress
from typing import Any

import pytest

from kernelarc_mcp.fleet.broker import SILENCE, Broker
from kernelarc_mcp.fleet.choice import Device
from kernelarc_mcp.fleet.versions import versions

pytest.importorskip("ray", reason="Ray is not installed: pip install 'kernelarc-mcp[ray]'")

from kernelarc_mcp.fleet.link import Address, Link
from kernelarc_mcp.fleet.session import Session

STEP = 0.02
"""Seconds of the world's clock that pass with one turn of the loop."""


class World:
    """A clock, and one broker after another."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.now = 0.0
        self.broker = Broker(SILENCE, lambda: self.now)
        self.late: set[asyncio.Task[None]] = set()

    async def tick(self) -> None:
        while True:
            self.now += STEP
            await asyncio.sleep(0)

    async def steps(self, most: int) -> None:
        for _ in range(self.chance.randrange(most)):
            await asyncio.sleep(0)

    async def deliver(self, method: str, arguments: tuple[Any, ...]) -> Any:
        if method == "news":  # nobody waits for anything but turns of the loop
            arguments = (arguments[0], 0.0, *arguments[2:])
        return await getattr(self.broker, method)(*arguments)

    def later(self, method: str, arguments: tuple[Any, ...]) -> None:
        """Have a message come through when nobody waits for its answer any more."""

        async def comes() -> None:
            await self.steps(400)
            await self.deliver(method, arguments)

        task = asyncio.create_task(comes())
        self.late.add(task)
        task.add_done_callback(self.late.discard)


class Lossy(Link):
    """A link of which one message or answer in five does not come through in time."""

    def __init__(self, world: World) -> None:
        super().__init__(Address("x", 1))
        self.world = world

    async def call(self, method: str, *arguments: object, seconds: float = 10.0) -> Any:
        """Call until an answer comes through, as a link does."""
        world = self.world
        while True:
            await world.steps(4)
            fate = world.chance.random()
            if fate < 0.1:
                world.later(method, arguments)
            else:
                answer = await world.deliver(method, arguments)
                if fate >= 0.2:
                    break
            await world.steps(60)
        if world.chance.random() < 0.1:
            world.later(method, arguments)
        await world.steps(4)
        return answer


class Machine:
    """A device as its actor and its host are to the rest of the fleet."""

    def __init__(self, world: World, name: str) -> None:
        self.world = world
        self.device = Device(name, "cpu", "x", "host", versions(), {})
        self.key = ""
        self.ended = asyncio.Event()
        self.link = Lossy(world)
        self.signs = 0

    async def tend(self) -> None:
        while True:
            self.signs += 1
            name = self.device.name
            ended = await self.link.call("beat", self.device, self.key, name, self.signs)
            if ended and ended == self.key:
                self.ended.set()
            await self.world.steps(100)

    async def judge(self, key: str) -> str:
        if self.key:
            return "busy"
        self.key = key
        self.ended.clear()
        for _ in range(self.world.chance.randrange(50, 150)):
            await asyncio.sleep(0)
            if self.ended.is_set():
                break
        self.key = ""
        return "busy" if self.ended.is_set() else "answered"


class Requests:
    """Asks requests of one stand-in, each until it is answered."""

    def __init__(self, world: World, machines: dict[str, Machine]) -> None:
        self.world, self.machines = world, machines
        self.session = Session(Lossy(world), lambda said: None, campaign="c", kind="cpu", model="")
        self.on: dict[int, int] = {}
        """Request -> on how many machines it is judged now."""
        self.tries: dict[int, list[str]] = {}

    async def ask(self, number: int) -> None:
        await self.world.steps(600)
        said = ""
        while said != "answered":
            key, device = await self.session.place("screen", frozenset())
            judged = asyncio.create_task(self._judge(number, device.name, key))
            silent = asyncio.create_task(self.session.silence(key).wait())
            await asyncio.wait([judged, silent], return_when=asyncio.FIRST_COMPLETED)
            said = judged.result() if judged.done() else "lost"
            silent.cancel()
            self.tries.setdefault(number, []).append(said)
            await self.session.done(key, device.name, said)  # type: ignore[arg-type]

    async def _judge(self, number: int, name: str, key: str) -> str:
        await self.world.steps(4)
        self.on[number] = self.on.get(number, 0) + 1
        assert self.on[number] == 1, f"request {number} is judged on two devices at once"
        said = await self.machines[name].judge(key)
        self.on[number] -= 1
        return said


async def lived(seed: int, restarts: int) -> Requests:
    """Let 20 requests be judged by four devices while the broker is started again some times."""
    world = World(seed)
    machines = {name: Machine(world, name) for name in ("one", "two", "three", "four")}
    requests = Requests(world, machines)
    ticking = asyncio.create_task(world.tick())
    tending = [asyncio.create_task(one.tend()) for one in machines.values()]
    await requests.session.enter()
    following = asyncio.create_task(requests.session.follow())
    asked = [asyncio.create_task(requests.ask(number)) for number in range(20)]

    async def restart() -> None:
        for _ in range(restarts):
            await world.steps(900)
            world.broker = Broker(SILENCE, lambda: world.now)

    restarting = asyncio.create_task(restart())
    done = asyncio.gather(*asked)
    until = world.now + 600.0
    while not done.done():
        assert world.now < until, f"seed {seed}: requests were forgotten: {requests.tries}"
        await asyncio.sleep(0)
    await done
    await restarting
    while world.late:
        await asyncio.sleep(0)
    for _ in range(800):
        await asyncio.sleep(0)
    places = world.broker._places
    assert sorted(places) == sorted(machines)
    assert not any(place.key or place.marks or place.quarantined for place in places.values())
    (session,) = world.broker._sessions.values()
    assert not session.waiting and not session.running
    if not restarts:
        assert 0 < world.broker._used["c"] <= len(machines) * world.now
    for task in (ticking, following, *tending):
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
    return requests


@pytest.mark.parametrize("seed", [1, 7])
def test_every_request_is_judged_once_whatever_comes_late_twice_or_in_another_order(
    seed: int,
) -> None:
    requests = asyncio.run(lived(seed, restarts=0))
    assert list(requests.tries.values()) == [["answered"]] * 20


@pytest.mark.parametrize("seed", [3, 7])
def test_a_broker_that_starts_again_amid_that_forgets_no_request_and_no_device(seed: int) -> None:
    requests = asyncio.run(lived(seed, restarts=3))
    assert all(said.count("answered") == 1 for said in requests.tries.values())
    assert len(requests.tries) == 20
