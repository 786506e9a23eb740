"""Who waits, and which devices there are: one actor for the whole cluster. Imports no ray.

It keeps nothing that could not be told to it again: devices say every few seconds that they are there,
and stand-ins say what they wait for and what they have running when they do not find themselves known.

Calls come late, twice and in another order, because whoever hears no answer calls again. So each does
nothing the second time, and none undoes what a later one said: signs of life and what a stand-in tells
are numbered, a request that is over never begins again, and who took leave does not come back.
"""

import asyncio
import math
import secrets
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Final, Literal

from kernelarc_mcp.fleet.choice import Bid, Device, choose
from kernelarc_mcp.fleet.known import (
    News,
    Place,
    Seen,
    Session,
    Told,
    key_of,
    number_of,
    owner_of,
)

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


class Broker:
    """Brings waiting requests and free devices together."""

    def __init__(
        self, silence: float = SILENCE, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """Count as gone who is silent for `silence` seconds of `clock`."""
        self._silence = silence
        self._clock = clock
        self._began = clock()
        self._life = secrets.randbits(48) << 32
        self._places: dict[str, Place] = {}
        self._sessions: dict[str, Session] = {}
        self._gone: dict[str, tuple[float, float]] = {}
        """Who is not there any more -> the highest number of theirs that says nothing now, and since when."""
        self._used: dict[str, float] = {}
        self._turns = 0
        self._said = self._life
        """Number of the last news: no other life's, so that none is taken for heard that was not."""

    async def beat(self, device: Device, busy: str, life: str, number: int) -> str:
        """Hear that a device is there and works on `busy`; return what it should end, or nothing.

        `life` is of its host's offering, and `number` grows with each of its signs.
        """
        now = self._clock()
        place = self._places.get(device.name)
        if number <= self._void(life):
            return ""
        if place is not None and place.life != life:
            # Offered anew by a host that was started again: what it did before is lost.
            self._lose(device.name)
            self._goes(place.life)
            marks = place.marks, place.quarantined, place.until
            place = None
        else:
            marks = 0, "", 0.0
        if place is None:
            place = self._places[device.name] = Place(device, life, now)
            place.marks, place.quarantined, place.until = marks
            self._wake_all()
        place.heard = now
        if number > place.number:
            place.number = number
            self._hears(place, device, busy)
        self._sweep()
        self._match()
        return busy if self._needless(busy, place) else ""

    async def withdraw_device(self, name: str, life: str) -> None:
        """Forget a device whose host takes it back, for good what that host offered as it."""
        place = self._places.get(name)
        if place is not None and place.life == life:
            self._lose(name)
        self._goes(life)

    async def enter(self, session: str, campaign: str, told: Told) -> int:
        """Make a stand-in known, with all that it has; return which life of the broker knows it now."""
        now = self._clock()
        known = self._sessions.get(session)
        if told.number <= (self._void(session) if known is None else known.entered):
            return self._life
        if known is None:
            known = self._sessions[session] = Session(campaign, now)
        known.entered, known.heard = told.number, now
        open_now = {*told.running, *(bid.key for bid in told.waiting)}
        for number in known.over.rest(told.count):
            if (key := key_of(session, number)) not in open_now:
                self._end(known, key)
        for key, name in told.running.items():
            if number_of(key) not in known.over and key not in known.given_up:
                self._runs(known, key, name)
        for bid in told.waiting:
            self._admit(known, bid)
        self._match()
        return self._life

    async def leave(self, session: str) -> None:
        """Forget a stand-in for good; devices that work for it are told to end that."""
        self._sessions.pop(session, None)
        self._goes(session)

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
        if (known := self._sessions.get(session)) is not None:
            self._end(known, key)
            self._match()

    async def done(self, key: str, name: str, ending: Ending, why: str, blamed: list[str]) -> None:
        """Free a device; `blamed` are others that could not do what this one has answered."""
        now = self._clock()
        owner = self._owner(key)
        first = owner is not None and number_of(key) not in owner.over
        place = self._places.get(name)
        had = place is not None and place.key == key
        if owner is not None:
            self._end(owner, key)
        if had and place is not None:
            self._free(place)
            if ending == "answered":
                place.marks = 0
            elif ending == "broken":
                self._quarantine(place, why, now)
            elif ending == "lost":
                # It is offered again with its next sign of life.
                self._lose(name)
        for other in blamed if first else ():
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
                return News(self._life, known=False)
            known.heard = self._clock()
            if known.said is not None and heard not in (None, known.said.number):
                return known.said
            known.said = None
            known.wake.clear()
            devices = self._seen()
            if known.granted or known.lost or devices != known.told:
                self._said += 1
                known.said = News(
                    self._life,
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
                return News(self._life)
            try:
                await asyncio.wait_for(known.wake.wait(), min(left, _COALESCE))
            except TimeoutError:
                continue

    def _hears(self, place: Place, device: Device, busy: str) -> None:
        """Take in a sign of life that is newer than all before."""
        now = self._clock()
        if place.device != device:
            place.device = device
            self._wake_all()
        if place.quarantined and now >= place.until:
            place.quarantined, place.marks = "", MARKS - 1
            self._wake_all()
        owner = self._owner(busy)
        if owner is not None and busy != place.last and not self._needless(busy, place):
            # A broker before this one granted it, or it is the one that is granted.
            self._runs(owner, busy, device.name)
        elif not self._wanted(place):
            if busy in ("", place.last):
                self._free(place)
            elif busy != place.key:
                self._free(place)
                place.takes(busy, "", now)

    def _needless(self, busy: str, place: Place) -> bool:
        """Say whether nobody needs what a device works on."""
        if not busy or busy == place.last:
            return False
        owner = self._owner(busy)
        if owner is None:
            # After a start of this actor, whoever asked for it may still make itself known.
            return self._clock() - self._began > self._silence
        if number_of(busy) in owner.over or busy in owner.given_up:
            return True
        return owner.running.get(busy, place.device.name) != place.device.name

    def _runs(self, owner: Session, key: str, name: str) -> None:
        """Note that a request runs on a device."""
        owner.waiting.pop(key, None)
        owner.running[key] = name
        if (place := self._places.get(name)) is None:
            owner.missing.setdefault(key, self._clock())
            return
        owner.missing.pop(key, None)
        if place.key != key:
            self._free(place)
        place.takes(key, owner.charged(key), self._clock())

    def _admit(self, session: Session, bid: Bid) -> None:
        """Let it wait, once; a campaign that comes back from idling gets no credit for that."""
        if (
            number_of(bid.key) in session.over
            or bid.key in session.waiting
            or bid.key in session.running
        ):
            return
        session.given_up.discard(bid.key)
        session.waits(replace(bid, since=self._clock()))
        if not session.charged(bid.key):
            return
        shares, own = self._shares(), bid.campaign
        active = [shares.get(name, 0.0) for name in self._active(bid) if name != own]
        if own not in self._active(bid) and active:
            self._used[own] = max(self._used.get(own, 0.0), min(active))

    def _active(self, but: Bid) -> set[str]:
        """Return the campaigns that have something waiting or at work, beside what has just come."""
        waiting = {
            one.charged(bid.key)
            for one in self._sessions.values()
            for bid in one.waiting.values()
            if bid.key != but.key
        } - {""}
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
                place.takes(bid.key, owner.charged(bid.key), self._clock())
                self._turns += 1
                place.turn = self._turns
                owner.wake.set()

    def _sweep(self) -> None:
        """Forget who has been silent for too long."""
        now = self._clock()
        oldest = now - self._silence
        for session in [name for name, one in self._sessions.items() if one.heard < oldest]:
            self._goes(session, self._sessions.pop(session).entered)
        for name in [name for name, one in self._places.items() if one.heard < oldest]:
            self._lose(name)
        for one in self._sessions.values():
            for key in [key for key, since in one.missing.items() if since < oldest]:
                self._give_up(one, key)
        for gone in [name for name, (_, since) in self._gone.items() if since < now - REST]:
            del self._gone[gone]

    def _lose(self, name: str) -> None:
        """Forget a device, and tell whoever uses it that it is gone."""
        place = self._places.pop(name)
        self._goes(place.life, place.number)
        owner, wanted = self._owner(place.key), self._wanted(place)
        key = place.key
        self._free(place)
        if owner is not None and wanted:
            self._give_up(owner, key)
        self._wake_all()

    def _give_up(self, owner: Session, key: str) -> None:
        """Tell who uses a device that nothing is heard of it any more."""
        owner.forgets(key)
        owner.lost.add(key)
        owner.given_up.add(key)
        owner.wake.set()

    def _end(self, owner: Session, key: str) -> None:
        """Let a request be over, and its device be free."""
        place = self._places.get(owner.running.get(key, ""))
        owner.over.add([number_of(key)])
        owner.forgets(key)
        if place is not None and place.key == key:
            self._free(place)

    def _free(self, place: Place) -> None:
        """Let a device be used by nobody; whose it was had it until now."""
        if place.campaign:
            spent = self._used.get(place.campaign, 0.0) + self._clock() - place.since
            self._used[place.campaign] = spent
        if place.key:
            place.last = place.key
        place.key, place.campaign = "", ""

    def _goes(self, who: str, number: float = math.inf) -> None:
        """Note that somebody is not there: for good, or until a word with a higher number."""
        self._gone[who] = max(number, self._void(who)), self._clock()

    def _void(self, who: str) -> float:
        return self._gone.get(who, (0.0, 0.0))[0]

    def _wanted(self, place: Place) -> bool:
        """Say whether somebody who is there has it, or is about to use it."""
        owner = self._owner(place.key)
        return owner is not None and owner.running.get(place.key) == place.device.name

    def _quarantine(self, place: Place, why: str, now: float) -> None:
        place.quarantined, place.until = why, now + REST
        self._wake_all()

    def _owner(self, key: str) -> Session | None:
        return self._sessions.get(owner_of(key))

    def _seen(self) -> tuple[Seen, ...]:
        ordered = sorted(self._places.items())
        return tuple(Seen(one.device, bool(one.key), one.quarantined) for _, one in ordered)

    def _wake_all(self) -> None:
        for session in self._sessions.values():
            session.wake.set()
