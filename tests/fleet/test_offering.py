"""How a host tends a device that it offers; actor and broker are made up here."""

import asyncio
from contextlib import suppress
from typing import Any

import pytest

pytest.importorskip("ray", reason="Ray is not installed: pip install 'kernelarc-mcp[ray]'")

from ray.exceptions import RayActorError

from kernelarc_mcp.fleet import offering
from kernelarc_mcp.fleet.choice import Device
from kernelarc_mcp.fleet.device import Offer
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
        one = offering.Offering(link, Offer("h:cpu", "h", "cpu", "python", tmp_path, {}), "")
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
