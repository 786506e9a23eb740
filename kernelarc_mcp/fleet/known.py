"""What the broker knows of devices and of stand-ins, and what it tells these. Imports no ray."""

import asyncio
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from kernelarc_guard.built_with import BUILDER
from kernelarc_mcp.fleet.choice import EXTRA, Bid, Device


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

    life: int
    """Of the broker: another one was started anew and may not know all that this one was told."""
    known: bool = True
    """False: nothing is known of it here, so it has to enter again and say all."""
    granted: Mapping[str, str] = field(default_factory=dict)
    """Key of a request -> name of the device that it may use now."""
    lost: frozenset[str] = frozenset()
    """Keys of requests whose device has gone silent; older than what is granted beside it."""
    devices: tuple[Seen, ...] | None = None
    """All devices, where something about them is new."""
    number: int = 0
    """By which a stand-in says that it has heard this; 0 where nothing is new."""


@dataclass(frozen=True)
class Told:
    """All that a stand-in has, as it tells it to a broker that may not know."""

    number: int
    """Grows with each telling: what comes late says nothing any more."""
    count: int
    """How many requests it ever had. Of these all are over but those that wait or run."""
    running: Mapping[str, str]
    """Key -> device."""
    waiting: tuple[Bid, ...]


@dataclass
class Place:
    """A device in the fleet."""

    device: Device
    life: str
    """Of its host's offering: another one has another actor, with nothing of what this one did."""
    heard: float
    number: int = 0
    """Of its last sign of life; what has a lower one comes late."""
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

    def takes(self, key: str, campaign: str, now: float) -> None:
        """Be used for a request of a campaign, from now on unless it already is."""
        if self.key != key:
            self.key, self.since = key, now
        # What is built has no part in the device time by which campaigns are served.
        self.campaign = "" if self.device.kind == BUILDER else campaign


class Over:
    """Which of the requests 1, 2, … of a stand-in are over: a late word of one begins nothing again."""

    def __init__(self) -> None:
        """Begin with none."""
        self._all_to = 0
        self._beyond: set[int] = set()

    def add(self, numbers: Iterable[int]) -> None:
        """Note that some are over."""
        self._beyond.update(number for number in numbers if number > self._all_to)
        while self._all_to + 1 in self._beyond:
            self._all_to += 1
            self._beyond.remove(self._all_to)

    def __contains__(self, number: int) -> bool:
        """Say whether one is over."""
        return number <= self._all_to or number in self._beyond

    def rest(self, count: int) -> list[int]:
        """Return which of the first `count` are not over."""
        return [n for n in range(self._all_to + 1, count + 1) if n not in self._beyond]


@dataclass
class Session:
    """A stand-in."""

    campaign: str
    heard: float
    entered: int = 0
    """Number of the last that it told all."""
    over: Over = field(default_factory=Over)
    waiting: dict[str, Bid] = field(default_factory=dict)
    running: dict[str, str] = field(default_factory=dict)
    """Key -> device, from the moment it is granted."""
    missing: dict[str, float] = field(default_factory=dict)
    """Of these, what runs on a device of which nothing was heard here, and since when that is so."""
    granted: dict[str, str] = field(default_factory=dict)
    """Of these, what it has not heard of."""
    lost: set[str] = field(default_factory=set)
    """What it has not heard that its device is gone."""
    given_up: set[str] = field(default_factory=set)
    """What was lost and is not over yet: where it still runs it is ended."""
    unshared: set[str] = field(default_factory=set)
    """What has no part in the device time by which campaigns are served."""
    told: tuple[Seen, ...] | None = None
    said: News | None = None
    """What it was told last, and may not have heard."""
    wake: asyncio.Event = field(default_factory=asyncio.Event)

    def waits(self, bid: Bid) -> None:
        """Have a request wait."""
        self.waiting[bid.key] = bid
        if bid.op == EXTRA:
            self.unshared.add(bid.key)

    def charged(self, key: str) -> str:
        """Return which campaign's device time a request takes; empty: none's."""
        return "" if key in self.unshared else self.campaign

    def forgets(self, key: str) -> None:
        """Have nothing of a request any more."""
        self.waiting.pop(key, None)
        self.running.pop(key, None)
        self.missing.pop(key, None)
        self.granted.pop(key, None)
        self.lost.discard(key)
        self.given_up.discard(key)
        self.unshared.discard(key)


def key_of(session: str, number: int) -> str:
    """Return what a stand-in's request is called in the fleet; `number` counts them from 1."""
    return f"{session}/{number}"


def owner_of(key: str) -> str:
    """Return whose request a key is."""
    return key.partition("/")[0]


def number_of(key: str) -> int:
    """Return which of its owner's requests a key is, from 1 on."""
    return int(key.partition("/")[2])
