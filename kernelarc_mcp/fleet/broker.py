"""Who waits, and which devices there are: one actor for the whole cluster. Imports no ray.

It keeps nothing that could not be told to it again: devices say every few seconds that they are there,
and stand-ins say what they wait for and what they have running when they do not find themselves known.
"""

import asyncio
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final, Literal

from kernelarc_mcp.fleet.choice import Bid, Device, choose

SILENCE: Final = 15.0
"""Seconds without a sign of life after which a device or a stand-in counts as gone."""
MARKS: Final = 3
"""How often in a row a device may fail what another one then answers."""
REST: Final = 300.0
"""Seconds that a quarantined device is left alone before it may try again."""
_COALESCE: Final = 0.5

Ending = Literal["answered", "failed", "lost", "broken", "busy"]
"""`answered`: whatever the answer. `failed`: the guard could not judge it, whoever is to blame. `lost`:
nothing was heard any more. `broken`: no guard can be started there. `busy`: it works for another."""


@dataclass(frozen=True)
class Seen:
    """A device as stand-ins are told of it."""

    device: Device
    busy: bool
    quarantined: str
    """Why, or an empty string."""


@dataclass(frozen=True)
class News:
    """What a stand-in has not heard yet."""

    known: bool = True
    """False: nothing is known of it here, so it has to enter again and say all."""
    granted: Mapping[str, str] = field(default_factory=dict)
    """Key of a request -> name of the device that it may use now."""
    lost: frozenset[str] = frozenset()
    """Keys of requests whose device has gone silent."""
    devices: tuple[Seen, ...] | None = None
    """All devices, where something about them is new."""
    number: int = 0
    """By which a stand-in says that it has heard this; 0 where nothing is new."""


@dataclass
class _Place:
    device: Device
    heard: float
    key: str = ""
    """What it was granted to, or says that it works on."""
    campaign: str = ""
    since: float = 0.0
    marks: int = 0
    quarantined: str = ""
    until: float = 0.0
    turn: int = 0
    """When it was used last, counted in grants: who was left alone for longest is used first."""
    last: str = ""
    """What it was freed of last: signs of life that still tell of it are older than that."""

    def frees(self) -> None:
        self.key, self.campaign, self.last = "", "", self.key


@dataclass
class _Session:
    campaign: str
    heard: float
    waiting: dict[str, Bid] = field(default_factory=dict)
    running: dict[str, str] = field(default_factory=dict)
    """Key -> device, from the moment it is granted."""
    granted: dict[str, str] = field(default_factory=dict)
    """Of these, what it has not heard of."""
    lost: set[str] = field(default_factory=set)
    told: tuple[Seen, ...] | None = None
    said: News | None = None
    """What it was told last, and may not have heard."""
    wake: asyncio.Event = field(default_factory=asyncio.Event)


class Broker:
    """Brings waiting requests and free devices together."""

    def __init__(
        self, silence: float = SILENCE, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """Count as gone who is silent for `silence` seconds of `clock`."""
        self._silence = silence
        self._clock = clock
        self._began = clock()
        self._places: dict[str, _Place] = {}
        self._sessions: dict[str, _Session] = {}
        self._used: dict[str, float] = {}
        self._turns = 0
        self._said = 0

    async def beat(self, device: Device, busy: str) -> str:
        """Hear that a device is there and works on `busy`; return what it should end, or nothing."""
        now = self._clock()
        place = self._places.get(device.name)
        if place is None or place.device != device:
            marks = (place.marks, place.quarantined, place.until) if place else (0, "", 0.0)
            place = self._places[device.name] = _Place(device, now, busy, "", now, *marks)
            self._wake_all()
        place.heard = now
        if place.quarantined and now >= place.until:
            place.quarantined, place.marks = "", MARKS - 1
            self._wake_all()
        self._sweep()
        if not self._wanted(place):
            if busy in ("", place.last):
                place.frees()
            elif busy != place.key:
                place.key, place.campaign, place.since = busy, "", now
        self._match()
        owner = self._owner(busy)
        if not busy or busy == place.last or (owner and owner.running.get(busy) == device.name):
            return ""
        # After a start of this actor, whoever asked for it may still make itself known.
        return busy if owner or now - self._began > self._silence else ""

    async def withdraw_device(self, name: str) -> None:
        """Forget a device whose host takes it back."""
        if name in self._places:
            self._lose(name)

    async def enter(
        self, session: str, campaign: str, running: Mapping[str, str], waiting: list[Bid]
    ) -> None:
        """Make a stand-in known, with what it has running (key -> device) and what waits."""
        now = self._clock()
        known = self._sessions[session] = _Session(campaign, now, running=dict(running))
        for key, name in running.items():
            if (place := self._places.get(name)) is not None:
                place.key, place.campaign = key, campaign
        for bid in waiting:
            self._admit(known, bid)
        self._match()

    async def leave(self, session: str) -> None:
        """Forget a stand-in; devices that work for it are told to end that."""
        self._sessions.pop(session, None)

    async def bid(self, session: str, bid: Bid) -> bool:
        """Let a request wait for a device; False: the stand-in is not known here."""
        known = self._sessions.get(session)
        if known is None:
            return False
        self._admit(known, bid)
        self._match()
        return True

    async def withdraw(self, session: str, key: str) -> None:
        """Let a request wait no longer."""
        known = self._sessions.get(session)
        if known is not None:
            known.waiting.pop(key, None)
            known.granted.pop(key, None)
            place = self._places.get(known.running.pop(key, ""))
            if place is not None and place.key == key:
                place.frees()
                self._match()

    async def done(self, key: str, name: str, ending: Ending, why: str, blamed: list[str]) -> None:
        """Free a device; `blamed` are others that could not do what this one has answered."""
        now = self._clock()
        if (owner := self._owner(key)) is not None:
            owner.running.pop(key, None)
        place = self._places.get(name)
        if place is not None and place.key == key:
            self._charge(place, now)
            place.frees()
            if ending == "answered":
                place.marks = 0
            elif ending == "broken":
                self._quarantine(place, why, now)
            elif ending == "lost":
                # It is offered again with its next sign of life.
                self._lose(name)
        for other in blamed:
            if (marked := self._places.get(other)) is not None:
                marked.marks += 1
                if marked.marks >= MARKS:
                    said = f"{MARKS} requests in a row failed there that other devices answered"
                    self._quarantine(marked, said, now)
        self._match()

    async def news(self, session: str, wait: float, heard: int | None = None) -> News:
        """Return what is new to a stand-in as soon as there is something, or after `wait` seconds.

        What it was told last is said again unless `heard` is its number, for an answer may be lost on its
        way; None: whatever was said came through.
        """
        until = self._clock() + wait
        while True:
            self._sweep()
            known = self._sessions.get(session)
            if known is None:
                return News(known=False)
            known.heard = self._clock()
            if known.said is not None and heard not in (None, known.said.number):
                return known.said
            known.said = None
            known.wake.clear()
            devices = self._seen()
            if known.granted or known.lost or devices != known.told:
                self._said += 1
                known.said = News(
                    number=self._said,
                    granted=dict(known.granted),
                    lost=frozenset(known.lost),
                    devices=devices if devices != known.told else None,
                )
                known.granted.clear()
                known.lost.clear()
                known.told = devices
                return known.said
            left = until - self._clock()
            if left <= 0:
                return News()
            try:
                await asyncio.wait_for(known.wake.wait(), min(left, _COALESCE))
            except TimeoutError:
                continue

    def _admit(self, session: _Session, bid: Bid) -> None:
        """Let it wait; a campaign that comes back from idling gets no credit for that."""
        shares, own = self._shares(), bid.campaign
        active = [shares.get(name, 0.0) for name in self._active() if name != own]
        if own not in self._active() and active:
            self._used[own] = max(self._used.get(own, 0.0), min(active))
        session.waiting[bid.key] = replace(bid, since=self._clock())

    def _active(self) -> set[str]:
        waiting = {b.campaign for one in self._sessions.values() for b in one.waiting.values()}
        return waiting | {place.campaign for place in self._places.values() if place.campaign}

    def _shares(self) -> dict[str, float]:
        """Return the device seconds that each campaign had, those under way included."""
        now, shares = self._clock(), dict(self._used)
        for place in self._places.values():
            if place.campaign:
                # A little for each, so that they are spread when all devices come free at once.
                spent = max(now - place.since, 1e-3)
                shares[place.campaign] = shares.get(place.campaign, 0.0) + spent
        return shares

    def _match(self) -> None:
        """Give every free device what suits it best."""
        sound = [place.device for place in self._places.values() if not place.quarantined]
        for place in sorted(self._places.values(), key=lambda one: one.turn):
            if place.key or place.quarantined:
                continue
            waiting = [bid for one in self._sessions.values() for bid in one.waiting.values()]
            bid = choose(place.device, waiting, self._shares(), sound, self._clock())
            owner = self._owner(bid.key) if bid is not None else None
            if bid is not None and owner is not None:
                del owner.waiting[bid.key]
                owner.granted[bid.key] = owner.running[bid.key] = place.device.name
                place.key, place.campaign, place.since = bid.key, bid.campaign, self._clock()
                self._turns += 1
                place.turn = self._turns
                owner.wake.set()

    def _sweep(self) -> None:
        """Forget who has been silent for too long."""
        oldest = self._clock() - self._silence
        for session in [name for name, one in self._sessions.items() if one.heard < oldest]:
            del self._sessions[session]
        for name in [name for name, one in self._places.items() if one.heard < oldest]:
            self._lose(name)

    def _lose(self, name: str) -> None:
        """Forget a device, and tell whoever uses it that it is gone."""
        place = self._places.pop(name)
        owner = self._owner(place.key)
        if owner is not None and owner.running.pop(place.key, None) is not None:
            self._charge(place, self._clock())
            owner.granted.pop(place.key, None)
            owner.lost.add(place.key)
        self._wake_all()

    def _wanted(self, place: _Place) -> bool:
        """Say whether somebody who is there has it, or is about to use it."""
        owner = self._owner(place.key)
        return owner is not None and place.key in owner.running

    def _charge(self, place: _Place, now: float) -> None:
        if place.campaign:
            spent = self._used.get(place.campaign, 0.0) + now - place.since
            self._used[place.campaign] = spent

    def _quarantine(self, place: _Place, why: str, now: float) -> None:
        place.quarantined, place.until = why, now + REST
        self._wake_all()

    def _owner(self, key: str) -> _Session | None:
        return self._sessions.get(key.partition("/")[0])

    def _seen(self) -> tuple[Seen, ...]:
        ordered = sorted(self._places.items())
        return tuple(Seen(one.device, bool(one.key), one.quarantined) for _, one in ordered)

    def _wake_all(self) -> None:
        for session in self._sessions.values():
            session.wake.set()
