"""A stand-in's side of the broker: what it waits for, what it has running, which devices there are."""

import asyncio
import uuid
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Final

from kernelarc_guard.built_with import BUILDER
from kernelarc_guard.fleet_wire import Capacity, FleetDevice
from kernelarc_guard.model import Model
from kernelarc_mcp.fleet.broker import Ending
from kernelarc_mcp.fleet.building import Building, building_for
from kernelarc_mcp.fleet.choice import Bid, Device, Needs, why_not
from kernelarc_mcp.fleet.known import News, Seen, Told, key_of
from kernelarc_mcp.fleet.link import Link
from kernelarc_mcp.fleet.versions import versions

_POLL_SECONDS: Final = 4.0


class Session:
    """What the broker knows of one stand-in, kept here so that it can be told again."""

    def __init__(
        self, link: Link, say: Callable[[Model], None], *, campaign: str, kind: str, model: str
    ) -> None:
        """Speak for a campaign, which measures on devices of `kind` and, where it says so, of `model`."""
        self.link = link
        self._say = say
        self._campaign = campaign
        self._needs = Needs(kind=kind, versions=versions(), model=model)
        self._id = uuid.uuid4().hex[:12]
        self._count = 0
        self._waiting: dict[str, tuple[Bid, asyncio.Future[str]]] = {}
        self._running: dict[str, str] = {}
        self._silent: dict[str, asyncio.Event] = {}
        self._heard = 0
        """Number of the last news."""
        self._entered = 0
        """How often it told all."""
        self._life = 0
        """Of the broker that was told."""
        self._seen: tuple[Seen, ...] = ()
        self._told: Capacity | None = None

    def learn(self, toolchain: Mapping[str, str]) -> None:
        """Ask from now on for what the campaign was calibrated with."""
        if toolchain and toolchain != self._needs.toolchain:
            self._needs = replace(self._needs, toolchain=dict(toolchain))
            self._tell_devices()

    async def enter(self) -> None:
        """Make it known to the broker, with all that it has.

        A broker that was started again meanwhile may have been told what was so before: then once more.
        """
        while True:
            self._entered += 1
            waiting = tuple(bid for bid, _ in self._waiting.values())
            told = Told(self._entered, self._count, dict(self._running), waiting)
            life = await self.link.call("enter", self._id, self._campaign, told)
            if life == self._life:
                return
            self._life = life

    async def leave(self) -> None:
        """Have the broker forget it."""
        await self.link.call("leave", self._id, seconds=2.0)

    async def follow(self) -> None:
        """Hear what is new, until cancelled."""
        while True:
            news = await self.link.call("news", self._id, _POLL_SECONDS, self._heard, seconds=15.0)
            assert isinstance(news, News)
            self._heard = news.number or self._heard
            for key in news.lost:
                if key in self._silent:
                    self._silent[key].set()
                elif (waited := self._waiting.get(key)) is not None:
                    # Its device went before it was heard of here: it waits for another.
                    await self._bid(waited[0])
            for key, name in news.granted.items():
                if (waited := self._waiting.pop(key, None)) is not None:
                    self._running[key] = name
                    self._silent[key] = asyncio.Event()
                    if not waited[1].done():
                        waited[1].set_result(name)
                elif key not in self._running:
                    await self.link.call("withdraw", self._id, key)
            if not news.known or news.life != self._life:
                await self.enter()
            if news.devices is not None:
                self._seen = news.devices
                self._tell_devices()

    async def place(
        self, op: str, elsewhere: frozenset[str], needs: Needs | None = None
    ) -> tuple[str, Device]:
        """Wait until a request is given a device; return its key there, and the device.

        `needs` are its own where they are not the campaign's: those of a build, and of another model.
        """
        self._count += 1
        key = key_of(self._id, self._count)
        bid = Bid(key, self._campaign, op, needs or self._needs, elsewhere)
        granted: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._waiting[key] = bid, granted
        try:
            await self._bid(bid)
            name = await granted
        except asyncio.CancelledError:
            self._waiting.pop(key, None)
            self._running.pop(key, None)
            await asyncio.shield(self.link.call("withdraw", self._id, key))
            raise
        return key, self._device(name)

    def silence(self, key: str) -> asyncio.Event:
        """Return what is set when nothing is heard any more of the device of a request."""
        return self._silent.setdefault(key, asyncio.Event())

    def needs_on(self, model: str) -> Needs:
        """Return what is asked of a device of another model: nothing was calibrated there."""
        return replace(self._needs, model=model, toolchain={})

    def others(self, tried: frozenset[str], needs: Needs | None = None) -> bool:
        """Say whether there is a sound device for this campaign, or with `needs`, that was not tried."""
        return any(
            one.device.name not in tried
            and not one.quarantined
            and not why_not(needs or self._needs, one.device)
            for one in self._seen
        )

    def building(self) -> Building | None:
        """Return what is built for the campaign's devices; None where none of them is there."""
        sound = (one.device for one in self._seen if not one.quarantined)
        return building_for(self._needs, sound)

    def has_slots(self, building: Building, free: bool = False) -> bool:
        """Say whether a slot can build that; `free`: now, as far as was heard."""
        return any(
            not one.quarantined
            and not (free and one.busy)
            and not why_not(building.needs, one.device)
            for one in self._seen
        )

    def longest_at_work(self) -> Device | None:
        """Return the device that has worked longest on one of this stand-in's requests, None where none does."""
        for name in self._running.values():
            device = self._device(name)
            own = self._needs.model in ("", device.model)
            if device.kind == self._needs.kind and own:
                return device
        return None

    async def done(
        self, key: str, name: str, ending: Ending, why: str = "", blamed: tuple[str, ...] = ()
    ) -> None:
        """Give a device back."""
        try:
            await self.link.call("done", key, name, ending, why, list(blamed))
        finally:
            # Only now: what is told in between must not say less than this call does.
            self._running.pop(key, None)
            self._silent.pop(key, None)

    async def _bid(self, bid: Bid) -> None:
        """Let a request wait; where the broker does not know this stand-in, with all else that waits."""
        if not await self.link.call("bid", self._id, bid):
            await self.enter()

    def _device(self, name: str) -> Device:
        found = next((one.device for one in self._seen if one.device.name == name), None)
        # Granted before it was heard of: what is said of it comes with the same news.
        return found or Device(name, self._needs.kind, "", "", {}, {})

    def _tell_devices(self) -> None:
        """Say which devices and slots there are; devices of another kind are nothing to this campaign."""
        building = self.building()
        self._tell(
            Capacity(
                devices=[
                    _as_told(one, why_not(self._asked_of(one.device), one.device))
                    for one in self._seen
                    if one.device.kind == self._needs.kind
                ],
                builders=[
                    _as_told(one, "" if building is None else why_not(building.needs, one.device))
                    for one in self._seen
                    if one.device.kind == BUILDER
                ],
            )
        )

    def _asked_of(self, device: Device) -> Needs:
        """Return what a device must be to be of use to anybody here.

        One of another model is no fault: it may serve other campaigns, or an extra board.
        """
        own = self._needs.model in ("", device.model)
        return replace(self._needs, model="") if own else self.needs_on("")

    def _tell(self, capacity: Capacity) -> None:
        if capacity != self._told:
            self._told = capacity
            self._say(capacity)


def _as_told(seen: Seen, refused: str) -> FleetDevice:
    one = seen.device
    told = FleetDevice(
        name=one.name, model=one.model, host=one.host, state="busy" if seen.busy else "ready"
    )
    if refused:
        return told.model_copy(update={"state": "refused", "why": refused})
    if seen.quarantined:
        return told.model_copy(update={"state": "quarantined", "why": seen.quarantined})
    return told
