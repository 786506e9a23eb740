"""How a host tends a device that it offers, where actor and broker are made up, and what its devices share."""

import argparse
import asyncio
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from fleet_builders import compiled, until
from host_places import make_problem
from own_device import guard_python

from kernelarc_guard import cores
from kernelarc_guard.entries import NATIVE
from kernelarc_guard.prepare import Prepare
from kernelarc_guard.protocol import ANSWER, Result, Schedule, Screen
from kernelarc_guard.recipes import BINARY
from kernelarc_guard.solution import Solution, reference_solution

pytest.importorskip("ray", reason="Ray is not installed: pip install 'kernelarc-mcp[ray]'")

from ray.exceptions import RayActorError

from kernelarc_mcp.fleet import offering
from kernelarc_mcp.fleet.choice import Device
from kernelarc_mcp.fleet.device import DeviceActor, Offer
from kernelarc_mcp.fleet.link import Address, Link

DEVICE = Device("h:cpu", "cpu", "x", "h", {}, {})


class Remote:
    """A method of an actor: what it is called with is kept, and it answers or raises."""

    def __init__(self, answer: Any) -> None:
        self.answer = answer
        self.asked: list[tuple[Any, ...]] = []

    async def remote(self, *arguments: Any) -> Any:
        """Answer as a method of Ray's does."""
        self.asked.append(arguments)
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


class Actor:
    """An actor that works on what nobody needs, and dies whenever it is told to end that."""

    def __init__(self) -> None:
        self.state = Remote((DEVICE, "s/1"))
        self.cancel = Remote(RayActorError())


class Ending(Link):
    """A link to a broker that has everything ended; four signs of life are enough."""

    def __init__(self) -> None:
        super().__init__(Address("x", 1))
        self.beats = 0
        self.enough = asyncio.Event()

    async def call(self, method: str, *arguments: object, seconds: float = 10.0) -> Any:
        """Hear a sign of life."""
        self.beats += 1
        assert (method, arguments[:2]) == ("beat", (DEVICE, "s/1"))
        assert arguments[3] == self.beats, "a sign of life has its number"
        if self.beats == 4:
            self.enough.set()
        return "s/1"


def test_an_actor_that_dies_when_it_is_told_to_end_something_is_tended_further(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(offering, "_BEAT_SECONDS", 0.01)
    actor = Actor()

    async def tended() -> None:
        link = Ending()
        one = offering.Offering(
            link, Offer("h:cpu", "h", "cpu", "python", tmp_path, tmp_path, {}), ""
        )
        one._actor = actor
        tending = asyncio.create_task(one.tend())
        enough = asyncio.create_task(link.enough.wait())
        await asyncio.wait([tending, enough], timeout=60, return_when=asyncio.FIRST_COMPLETED)
        assert not tending.done() and link.beats >= 4
        tending.cancel()
        with suppress(asyncio.CancelledError):
            await tending

    asyncio.run(tended())
    assert len(actor.cancel.asked) >= 3


def test_a_name_that_is_taken_is_told_at_once_and_waited_for(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(offering, "_AGAIN_SECONDS", 0.0)
    offer = Offer("h:cpu", "h", "cpu", "python", tmp_path, tmp_path, {})
    one = offering.Offering(Ending(), offer, "")
    actor, taken = Actor(), [ValueError("taken"), ValueError("taken")]

    def created() -> Actor:
        if taken:
            raise taken.pop()
        return actor

    monkeypatch.setattr(one, "_created", created)
    asyncio.run(one.start())
    assert one._actor is actor
    (told,) = capsys.readouterr().out.splitlines()
    assert told.startswith("h:cpu is offered already, by another host of that name or one that is")


PROBLEM = make_problem()
SHARED: dict[str, Any] = {
    "cache_dir": "/nowhere",
    "schedule": Schedule(calls=2, warmup_calls=1, evict_bytes=0),
}


async def judged(actor: DeviceActor, candidate: Solution) -> Result:
    """Return what a device says of a candidate's correctness."""
    request = Screen(
        id="s1-screen.1",
        candidate=candidate,
        problem=PROBLEM,
        record=reference_solution(PROBLEM.definition),
        correctness_only=True,
        **SHARED,
    )
    *_, last = [said async for said in actor.judge("s/1", request.model_dump_json().encode())]
    answer = ANSWER.validate_json(last.line)
    assert isinstance(answer, Result)
    return answer


def test_what_one_device_of_a_host_built_ahead_another_one_finds(tmp_path: Path) -> None:
    python, folder = tmp_path / "python", tmp_path / "host"
    ahead = f'[ "$3" = kernelarc_guard ] && set -- "$@" --prepare-on={cores.ALL[0]}'
    python.write_text(f'#!/bin/sh\n{ahead}\nexec {guard_python()} "$@"\n')
    python.chmod(0o755)
    options = argparse.Namespace(
        name="h", cpu=True, gpus=1, builders=0, guard_python=str(python), folder=str(folder)
    )
    offers = [one for one in offering._offers(options, {}) if isinstance(one, Offer)]
    # Nothing that is asked here needs the GPU: both measure on the CPU, and all of it.
    here = [replace(one, place="cpu", cores=()) for one in offers]
    own, native = compiled(1), folder / "cache" / NATIVE

    async def steps() -> None:
        one, other = map(DeviceActor, here)
        try:
            prepare = Prepare(id="s2", definition=PROBLEM.definition, candidate=own, **SHARED)
            line = prepare.model_dump_json().encode()
            judging = asyncio.create_task(judged(one, reference_solution(PROBLEM.definition)))
            while not (judging.done() or await one.prepare(line)):
                await asyncio.sleep(0)
            await judging
            await until(lambda: bool(list(native.glob(f"*/{BINARY}"))))
            (built,) = tmp_path.rglob(BINARY)
            number = built.stat().st_ino
            found = await judged(other, own)
            assert found.stages["correctness"].state == "passed"
            assert list(tmp_path.rglob(BINARY)) == [built] and built.stat().st_ino == number
        finally:
            await one._guard.aclose()
            await other._guard.aclose()

    asyncio.run(steps())
