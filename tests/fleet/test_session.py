"""What a stand-in tells the server of devices; the broker's side is made up here."""

import asyncio
from contextlib import suppress
from typing import Any

import pytest

from kernelarc_guard.fleet_wire import Capacity
from kernelarc_guard.model import Model
from kernelarc_mcp.fleet.broker import Broker
from kernelarc_mcp.fleet.choice import Device
from kernelarc_mcp.fleet.known import Seen
from kernelarc_mcp.fleet.versions import versions

pytest.importorskip("ray", reason="Ray is not installed: pip install 'kernelarc-mcp[ray]'")

from kernelarc_mcp.fleet.link import Address, Link
from kernelarc_mcp.fleet.session import Session

TOOLS = {"torch": "2.13.0"}


def seen(
    name: str, *, kind: str = "cuda", model: str = "H200", why: str = "", **tools: str
) -> Seen:
    device = Device(name, kind, model, f"host-{name}", versions(), TOOLS | tools)
    return Seen(device, busy=False, quarantined=why)


def told(*devices: Seen, toolchain: dict[str, str] | None = None) -> dict[str, tuple[str, str]]:
    """Return state and reason of each device, as the server hears them last."""
    said: list[Model] = []
    session = Session(Link(Address("x", 1)), said.append, campaign="c", kind="cuda", model="H200")
    session._seen = devices
    session._tell_devices()
    session.learn(toolchain or {})
    (*_, last) = said
    assert isinstance(last, Capacity)
    return {one.name: (one.state, one.why) for one in last.devices}


def test_devices_of_other_versions_are_refused_with_what_differs_and_quarantined_ones_named() -> (
    None
):
    devices = [seen("a"), seen("b", torch="2.9.0"), seen("c", why="no guard starts")]
    assert told(*devices) == {
        "a": ("ready", ""),
        "b": ("ready", ""),
        "c": ("quarantined", "no guard starts"),
    }
    # What it was calibrated with decides, as soon as that is known.
    known = told(*devices, toolchain=TOOLS)
    assert known["a"] == ("ready", "") and known["b"][0] == "refused"
    assert known["b"][1] == "torch is 2.9.0 there; the campaign was calibrated with 2.13.0"


def test_devices_of_another_model_are_told_and_those_of_another_kind_are_not() -> None:
    found = told(seen("a"), seen("b", model="H100"), seen("c", kind="cpu", model="EPYC"))
    assert set(found) == {"a", "b"}


class Near(Link):
    """A link to a broker of this process."""

    def __init__(self) -> None:
        super().__init__(Address("x", 1))
        self.broker = Broker()
        self.loses = False
        """Whether the next answer with a grant is lost, so that the call is made again."""

    async def call(self, method: str, *arguments: object, seconds: float = 10.0) -> Any:
        """Call it at once."""
        answer = await getattr(self.broker, method)(*arguments)
        if self.loses and getattr(answer, "granted", None):
            self.loses = False
            answer = await getattr(self.broker, method)(*arguments)
        return answer


def test_a_request_whose_device_goes_before_it_is_told_of_it_waits_for_another() -> None:
    async def placed() -> str:
        link = Near()
        broker = link.broker
        session = Session(link, lambda said: None, campaign="c", kind="cuda", model="")
        await session.enter()
        await broker.beat(seen("a").device, "", "a", 1)
        placing = asyncio.create_task(session.place("screen", frozenset()))
        while not broker._places["a"].key:
            await asyncio.sleep(0)
        await broker.withdraw_device("a", "a")
        await broker.beat(seen("b").device, "", "b", 1)
        following = asyncio.create_task(session.follow())
        _, device = await asyncio.wait_for(placing, 60)
        following.cancel()
        with suppress(asyncio.CancelledError):
            await following
        return device.name

    assert asyncio.run(placed()) == "b"


def test_a_grant_whose_telling_was_lost_on_its_way_is_told_again() -> None:
    async def placed() -> list[str]:
        link = Near()
        link.loses = True
        session = Session(link, lambda said: None, campaign="c", kind="cuda", model="")
        await session.enter()
        await link.broker.beat(seen("a").device, "", "a", 1)
        following = asyncio.create_task(session.follow())
        used = []
        for _ in range(2):
            placing = session.place("screen", frozenset())
            key, device = await asyncio.wait_for(placing, 60)
            used.append(device.name)
            await session.done(key, device.name, "answered")
        following.cancel()
        with suppress(asyncio.CancelledError):
            await following
        assert not link.loses
        return used

    assert asyncio.run(placed()) == ["a", "a"]


@pytest.mark.parametrize("text", ["", "host:", "host:0", "host:x", "ray://:6379"])
def test_an_address_that_is_none_is_refused_with_what_is_expected(text: str) -> None:
    with pytest.raises(ValueError, match="expected HOST"):
        Address.of(text)
    assert str(Address.of("ray://far")) == "far:6379"
