"""Building ahead, the stand-in's side: what judgements wait for and are handed; slots are made up here."""

import asyncio
import hashlib
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from typing import Any

import pytest
from host_places import kernel, make_problem

from kernelarc_guard.built_with import BUILDER
from kernelarc_guard.entries import Artefact
from kernelarc_guard.prepare import BuildOrder, Prepare
from kernelarc_guard.protocol import Screen
from kernelarc_guard.solution import Solution, make_solution
from kernelarc_mcp.fleet.building import building_for, slot_cores
from kernelarc_mcp.fleet.choice import Device, Needs, why_not
from kernelarc_mcp.fleet.versions import versions

pytest.importorskip("ray", reason="Ray is not installed: pip install 'kernelarc-mcp[ray]'")

from ray.exceptions import RayActorError

from kernelarc_mcp.fleet import builds as module
from kernelarc_mcp.fleet.actors import Actors
from kernelarc_mcp.fleet.broker import Broker
from kernelarc_mcp.fleet.builds import Builds
from kernelarc_mcp.fleet.link import Address, Link
from kernelarc_mcp.fleet.session import Session
from kernelarc_mcp.fleet.slot import BuildSaid

PROBLEM = make_problem()
FILES = {"C++ compiler": "/usr/bin/c++ (1234abcd)", "processor": "EPYC (5678cdef)"}
TOOLS = {"C++": "GCC 12.2.0", "torch": "2.11.0", "numpy": "2.3.0"}
DEVICE = Device("a:cpu", "cpu", "EPYC", "a", versions(), TOOLS, built_with=FILES)
SLOT = Device("b:builder0", BUILDER, "EPYC", "b", versions(), {**TOOLS, **FILES, "nvcc": "13.0"})


class Near(Link):
    """A link to a broker of this process."""

    def __init__(self) -> None:
        super().__init__(Address("x", 1))
        self.broker = Broker()

    async def call(self, method: str, *arguments: object, seconds: float = 10.0) -> Any:
        """Call it at once."""
        return await getattr(self.broker, method)(*arguments)


class Method:
    """A method of an actor, as Ray calls it."""

    def __init__(self, call: Callable[..., Any]) -> None:
        self.remote = call

    def options(self, **how: object) -> "Method":
        """Return itself."""
        return self


class Actor:
    """A slot that says what a test puts in, and a device that notes what it is to build."""

    def __init__(self) -> None:
        self.orders: list[BuildOrder] = []
        self.says: asyncio.Queue[BuildSaid | Exception] = asyncio.Queue()
        self.passed_on: list[bytes] = []
        self.build, self.prepare = Method(self._build), Method(self._prepare)

    async def _build(self, key: str, order: BuildOrder) -> AsyncIterator[Awaitable[BuildSaid]]:
        self.orders.append(order)
        while True:
            said = await self.says.get()
            if isinstance(said, Exception):
                raise said
            answer: asyncio.Future[BuildSaid] = asyncio.get_running_loop().create_future()
            answer.set_result(said)
            yield answer

    async def _prepare(self, line: bytes) -> bool:
        self.passed_on.append(line)
        return True


class Known(Actors):
    """One actor stands for all of them."""

    def __init__(self) -> None:
        super().__init__("")
        self.actor = Actor()

    async def of(self, name: str) -> Any:
        """Return it."""
        return self.actor


class Place:
    """A stand-in's builds, with a broker that knows a device and, unless without, a slot."""

    def __init__(self, *devices: Device) -> None:
        self.link = Near()
        self.devices = devices
        self.session = Session(self.link, lambda said: None, campaign="c", kind="cpu", model="EPYC")
        self.known = Known()
        self.builds = Builds(self.session, self.known)

    def offer(self, number: int) -> None:
        """Have a candidate built."""
        request = Prepare(
            id=f"s{number}",
            cache_dir="c",
            definition=PROBLEM.definition,
            candidate=candidate(number),
        )
        self.builds.offer(request, request.model_dump_json().encode())

    async def begun(self, count: int) -> None:
        """Wait until so many orders came to the slot."""
        async with asyncio.timeout(60):
            while len(self.known.actor.orders) < count:
                await asyncio.sleep(0)

    async def settled(self, number: int) -> None:
        """Wait as a judgement does."""
        async with asyncio.timeout(60):
            await self.builds.settled(screen(number))

    def handed(self, number: int, device: Device = DEVICE) -> list[str]:
        """Return the keys of what a device is handed, and note that it has it."""
        found = self.builds.handed(screen(number), device)
        self.builds.had(device, found)
        return [one.key for one in found]


@asynccontextmanager
async def place(*devices: Device) -> AsyncIterator[Place]:
    made = Place(*devices)
    await made.session.enter()
    for device in devices:
        await made.link.broker.beat(device, "", f"life of {device.name}", 1)
    following = asyncio.create_task(made.session.follow())
    try:
        async with asyncio.timeout(60):
            while len(made.session._seen) < len(devices):
                await asyncio.sleep(0)
        yield made
        await made.builds.close()
    finally:
        following.cancel()
        with suppress(asyncio.CancelledError):
            await following


def candidate(number: int) -> Solution:
    spec = {"languages": ["cpp"], "entry_point": "k.cpp::run", "binding": "dlpack"}
    sources = [{"path": "k.cpp", "content": kernel(number)}]
    return make_solution({"name": "k", "definition": "add", "spec": spec, "sources": sources})


def screen(number: int) -> Screen:
    """Return a request for a candidate, whose record is that before it."""
    record, own = candidate(number - 1), candidate(number)
    return Screen(id="s-screen.1", cache_dir="c", problem=PROBLEM, record=record, candidate=own)


def built(number: int, seconds: float = 1.0, size: int = 10) -> BuildSaid:
    artefact = Artefact(key(number), candidate(number).digest, b"x" * size, b"[]", "b:builder0", "")
    return BuildSaid("built", artefact=artefact, seconds=seconds)


def key(number: int) -> str:
    return hashlib.sha256(b"%d" % number).hexdigest()


def run(steps: Coroutine[Any, Any, None]) -> None:
    asyncio.run(steps)


def test_what_a_slot_builds_is_handed_once_to_each_host_that_builds_alike() -> None:
    async def steps() -> None:
        async with place(DEVICE, SLOT) as made:
            made.offer(1)
            made.offer(1)
            await made.begun(1)
            made.known.actor.says.put_nowait(BuildSaid("sign"))
            waiting = asyncio.create_task(made.settled(1))
            await asyncio.sleep(0)
            assert not waiting.done() and made.handed(1) == []
            made.known.actor.says.put_nowait(built(1))
            await waiting
            assert made.handed(1) == [key(1)] and made.handed(1) == []
            # It is the record now, on another device; and on one whose guard would not look for it.
            assert made.handed(2, replace(DEVICE, name="a:gpu1")) == [], "in its host's cache"
            assert made.handed(2, replace(DEVICE, name="c:cpu", host="c")) == [key(1)]
            odd = {**FILES, "processor": "Xeon"}
            other = replace(DEVICE, name="d:cpu", host="d", built_with=odd)
            assert made.handed(2, other) == []
            made.offer(1)
            assert len(made.known.actor.orders) == 1, "it is built once"

    run(steps())


@pytest.mark.parametrize(
    "last", [BuildSaid("failed", "no"), BuildSaid("broken", "no"), RayActorError(), None]
)
def test_a_build_that_fails_is_lost_or_says_nothing_leaves_nothing_and_holds_nobody_up(
    last: BuildSaid | Exception | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "SILENCE", 0.05 if last is None else 60.0)

    async def steps() -> None:
        async with place(DEVICE, SLOT) as made:
            made.offer(1)
            await made.begun(1)
            if last is not None:
                made.known.actor.says.put_nowait(last)
            await made.settled(1)
            assert made.handed(1) == [] and not made.builds._under_way

    run(steps())


def test_nobody_waits_for_a_build_that_has_no_slot_or_takes_longer_than_builds_do(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "_BEGIN_SECONDS", 0.05)
    monkeypatch.setattr(module, "LEAST_WAIT", 0.05)

    async def steps() -> None:
        async with place(DEVICE, SLOT) as made:
            says = made.known.actor.says
            made.offer(1)
            made.offer(2)
            await made.begun(1)
            await made.settled(2)
            says.put_nowait(built(1, seconds=0.01))
            await made.settled(1)
            made.offer(3)
            await made.begun(2)
            assert made.known.actor.orders[1].request.id == "s3", "the second was taken back"
            await made.settled(3)
            assert made.handed(3) == [], "judged without it"
            # It is not ended: a confirmation may find it.
            ending = made.builds._under_way[candidate(3).digest].task
            says.put_nowait(built(3))
            assert ending is not None
            await ending
            assert made.handed(3) == [key(3)]

    run(steps())


def test_without_slots_the_device_that_has_worked_longest_is_told_and_else_nobody() -> None:
    async def steps() -> None:
        async with place(DEVICE) as made:
            made.offer(1)
            _, device = await made.session.place("screen", frozenset())
            assert device == DEVICE
            made.offer(2)
            async with asyncio.timeout(60):
                while not made.known.actor.passed_on:
                    await asyncio.sleep(0)
            (line,) = made.known.actor.passed_on
            assert Prepare.model_validate_json(line).id == "s2"
            await made.settled(2)
            assert not made.builds._under_way

    run(steps())


def test_what_is_kept_to_be_handed_over_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_BYTES", 100)

    async def steps() -> None:
        async with place(DEVICE, SLOT) as made:
            for number in (1, 3, 5):
                made.offer(number)
                await made.begun((number + 1) // 2)
                made.known.actor.says.put_nowait(built(number, size=45))
                await made.settled(number)
            assert [made.handed(number) for number in (1, 3, 5)] == [[], [key(3)], [key(5)]]

    run(steps())


def test_a_slot_builds_for_a_campaign_only_with_all_that_decides_what_comes_out() -> None:
    needs = Needs(kind="cpu", versions=versions(), toolchain=TOOLS)
    building = building_for(needs, [DEVICE])
    assert building is not None and why_not(building.needs, SLOT) == ""
    assert "numpy" not in building.needs.toolchain, "it only runs"
    for name, other in (("C++", "GCC 13"), ("processor", "Xeon"), ("torch", "2.9.0")):
        odd = replace(SLOT, toolchain={**SLOT.toolchain, name: other})
        told = f"{name} is {other} there; the campaign builds with {building.needs.toolchain[name]}"
        assert why_not(building.needs, odd) == told
    older = replace(SLOT, versions={**versions(), "kernelarc": "0.0.1"})
    assert why_not(building.needs, older).startswith("kernelarc is 0.0.1 there")
    # Where hosts differ it is built as most of them would; where none tells, not at all.
    others = [replace(DEVICE, name=f"{n}", built_with={**FILES, "processor": "X"}) for n in "xy"]
    most = building_for(needs, [DEVICE, *others])
    assert most is not None and most.is_for(others[0]) and not most.is_for(DEVICE)
    assert building_for(needs, [replace(DEVICE, built_with={}), SLOT]) is None


@pytest.mark.parametrize(
    ("shares", "cores", "threads"),
    [
        ([], (), 0),
        ([range(8)], (0, 1, 2, 3), 3),
        ([range(4), range(4, 8)], (0, 1, 4, 5), 1),
        ([range(16), range(16)], tuple(range(8)), 7),
        ([range(3)], (), 0),
    ],
)
def test_slots_of_a_host_with_devices_keep_off_what_is_timed(
    shares: list[range], cores: tuple[int, ...], threads: int
) -> None:
    assert slot_cores(shares) == (cores, threads)
