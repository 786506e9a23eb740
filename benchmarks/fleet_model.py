"""One campaign on a fleet as discrete events: agents think and submit, one server writes, lanes judge.

The order of service is the product's own (`kernelarc_mcp.host.queueing`). What a server does (transactions, signs of life, what
waits and looks) goes through one process, as it does in the product. Times are in seconds.
"""

import random
from collections import Counter, defaultdict
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import simpy

from benchmarks.recorded_cases import Case
from kernelarc_mcp.follow import HEARTBEAT, LOOK, MAX_WAIT, POLL
from kernelarc_mcp.host.queueing import first_in_line

Draw = Callable[[random.Random], float]
Waits = Generator[simpy.Event, Any, Any]
Use = Literal["transactions", "signs of life", "calls", "waiting"]


@dataclass(frozen=True)
class Costs:
    """Seconds of the server's process; all 0: a server that costs nothing."""

    submit: float = 0.0
    claim: float = 0.0
    choose: float = 0.0
    """Of finding who is next, for each submission that is queued."""
    screened: float = 0.0
    staked: float = 0.0
    confirmed: float = 0.0
    sign: float = 0.0
    """Of a sign of life."""
    look: float = 0.0
    """Of one look by one who waits."""
    view: float = 0.0
    """Of telling one who waits how things stand: after each sign of life, and now and then."""
    every_row: bool = False
    """As before 2026-11-30: all look ten times a second, and are told after every row of the campaign."""
    call: float = 0.0
    """Of a call over HTTP, beside what it does."""


@dataclass(frozen=True)
class Fleet:
    """A campaign, the devices that judge for it and what its agents are like."""

    lanes: int
    agents: int
    think: Draw
    """From a verdict to the next submission."""
    draw: Callable[[random.Random], Case]
    costs: Costs = Costs()
    overhead: float = 0.0
    """Of sending one request to a device and its answer back."""
    spread: float = 0.0
    """Of comparing a new record with itself; 0: it is not."""
    canary: float = 0.0
    canaries: float = 0.0
    """Canaries per judged submission."""
    in_flight: int = 1
    """Submissions of every tenth agent that wait or are judged at a time; the others have one."""
    most: int = 1
    """Of them, how many are judged at a time."""


@dataclass
class Submission:
    """One submission on its way."""

    ticket: str
    agent: str
    number: int
    case: Case
    level: float
    """How good it is: it beats a record of a lower level."""
    at: float
    claims: int = 0
    against: int = 0
    """Moves of the record there had been when it was claimed."""
    waited: float = 0.0


@dataclass
class Seen:
    """What happened after the warm-up."""

    seconds: float
    verdicts: int = 0
    keeps: int = 0
    busy: float = 0.0
    """Seconds of all lanes in which a guard had a request."""
    wasted: float = 0.0
    """Of these, for judgements against a record that had moved."""
    repeats: int = 0
    duties: float = 0.0
    """Seconds of all lanes for canaries and new records."""
    canaries_due: int = 0
    canaries: int = 0
    """That were made and count: the record was the same at their end."""
    waits: list[float] = field(default_factory=list)
    """From submission to first claim, of what was claimed."""
    answers: list[float] = field(default_factory=list)
    """From submission to verdict."""
    server: dict[str, float] = field(default_factory=lambda: defaultdict(float))
    """Use -> seconds of the server's process."""
    by_agent: Counter[str] = field(default_factory=Counter)
    """Verdicts."""


def simulate(fleet: Fleet, seed: int, seconds: float, warm: float) -> Seen:
    """Return what happened in `seconds` after `warm`; the same for the same arguments."""
    world = _World(fleet, random.Random(seed), warm, seconds)
    world.env.run(until=warm + seconds)
    world.close()
    return world.seen


class _World:
    def __init__(self, fleet: Fleet, chance: random.Random, warm: float, seconds: float) -> None:
        self.env = simpy.Environment()
        self.fleet, self.chance = fleet, chance
        self.seen = Seen(seconds)
        self._begin, self._end = warm, warm + seconds
        self._server = simpy.Resource(self.env)
        self._serving: tuple[Use, float] | None = None
        """What its process does, since when."""
        self._free = fleet.lanes
        self._waiting: list[Submission] = []
        self._served = {f"agent-{n}": 0 for n in range(fleet.agents)}
        self._rows = self._numbers = 0
        self._moves = 0
        self._record = 0.0
        self._judging: list[str] = []
        """Whose submissions are judged."""
        self._on_duty = False
        self._spread_due = False
        self._canaries_due = 0.0
        self._wake = self.env.event()
        self._done: dict[str, simpy.Event] = {}
        self._running: dict[int, float] = {}
        """What a lane measures now -> since when."""
        for number, agent in enumerate(self._served):
            flights = fleet.in_flight if number % 10 == 0 else 1
            for _ in range(flights):
                self.env.process(self._agent(agent))
        self.env.process(self._dispatcher())
        if fleet.costs.look or fleet.costs.view:
            self.env.process(self._onlookers())

    def close(self) -> None:
        """Count what still goes on."""
        for since in self._running.values():
            self.seen.busy += self._within(since, self._end)
        if self._serving is not None:
            self._end_serving()

    def _end_serving(self) -> None:
        assert self._serving is not None
        use, since = self._serving
        self.seen.server[use] += self._within(since, self.env.now)
        self._serving = None

    def _within(self, since: float, until: float) -> float:
        """Return how much of a stretch lies after the warm-up and before the end."""
        return max(0.0, min(until, self._end) - max(since, self._begin))

    def _write(self, use: Use, seconds: float, rows: int = 0) -> Waits:
        """Take the server's process for so long; what is written there is `rows`."""
        if seconds:
            with self._server.request() as turn:
                yield turn
                self._serving = (use, self.env.now)
                yield self.env.timeout(seconds)
                self._end_serving()
        self._rows += rows

    def _agent(self, agent: str) -> Waits:
        costs = self.fleet.costs
        yield self.env.timeout(self.fleet.think(self.chance))
        while True:
            case = self.fleet.draw(self.chance)
            level = self._record + self.chance.expovariate(1.0)
            self._numbers += 1
            number, at = self._numbers, self.env.now
            yield from self._write("calls", costs.call)
            refused = not case.seconds
            yield from self._write("transactions", costs.submit, 1 + refused)
            if not refused:
                one = Submission(f"s{number}", agent, number, case, level, at)
                self._done[one.ticket] = self.env.event()
                self._waiting.append(one)
                self._stir()
                yield self._done[one.ticket]
                del self._done[one.ticket]
                for _ in range(int((self.env.now - at) // MAX_WAIT) + 1):
                    yield from self._write("calls", costs.call)
            self._verdict(agent, at)
            yield self.env.timeout(self.fleet.think(self.chance))

    def _verdict(self, agent: str, at: float) -> None:
        if self.env.now >= self._begin:
            self.seen.verdicts += 1
            self.seen.by_agent[agent] += 1
            self.seen.answers.append(self.env.now - at)

    def _stir(self) -> None:
        if not self._wake.triggered:
            self._wake.succeed()

    def _dispatcher(self) -> Waits:
        while True:
            if self._free and not self._on_duty and self._duty_is_due():
                self._free -= 1
                self._on_duty = True
                self.env.process(self._duty())
            elif self._free and (one := self._next()) is not None:
                self._free -= 1
                yield from self._write("transactions", self._claim_seconds(), 1)
                self._waiting.remove(one)
                self._served[one.agent] = self._rows
                if not one.claims and self.env.now >= self._begin:
                    self.seen.waits.append(self.env.now - one.at)
                one.claims += 1
                one.against = self._moves
                self._judging.append(one.agent)
                self.env.process(self._judge(one))
            else:
                self._wake = self.env.event()
                yield self._wake

    def _claim_seconds(self) -> float:
        return self.fleet.costs.claim + self.fleet.costs.choose * len(self._waiting)

    def _next(self) -> Submission | None:
        ticket = first_in_line(self._waiting, self._served, self._judging, self.fleet.most)
        return next((one for one in self._waiting if one.ticket == ticket), None)

    def _judge(self, one: Submission) -> Waits:
        fleet, costs, case = self.fleet, self.fleet.costs, one.case
        since = self.env.now
        keeps = case.verdict == "KEEP" and one.level > self._record
        yield from self._work(one.number, case.screen + fleet.overhead)
        share = case.screen / case.seconds
        yield from self._signs(case.signs * share)
        # Without what made it a KEEP it is told apart by its screen.
        confirms = case.confirm and (keeps or case.verdict != "KEEP")
        yield from self._write("transactions", costs.screened, 1 if confirms else 2)
        repeats = bool(confirms) and one.against != self._moves
        if confirms and not repeats:
            yield from self._write("transactions", costs.staked, 1)
            yield from self._work(one.number, case.confirm + fleet.overhead)
            yield from self._signs(case.signs * (1 - share))
            repeats = keeps and one.against != self._moves
            yield from self._write("transactions", costs.confirmed, 2)
        self._free += 1
        self._judging.remove(one.agent)
        if repeats:
            self.seen.repeats += self.env.now >= self._begin
            self.seen.wasted += self._within(since, self.env.now)
            self._waiting.append(one)
        else:
            self._settle(one, keeps)
        self._stir()

    def _signs(self, count: float) -> Waits:
        """Write signs of life, together, and tell who waits for them."""
        costs = self.fleet.costs
        yield from self._write("signs of life", costs.sign * count)
        if not costs.every_row:
            yield from self._write("waiting", costs.view * count)

    def _work(self, number: int, seconds: float) -> Waits:
        """Have a lane measure for so long."""
        since = self._running[number] = self.env.now
        yield self.env.timeout(seconds)
        del self._running[number]
        self.seen.busy += self._within(since, self.env.now)

    def _settle(self, one: Submission, keeps: bool) -> None:
        if keeps:
            self._moves += 1
            self._record = one.level
            self.seen.keeps += self.env.now >= self._begin
            self._spread_due = self.fleet.spread > 0
        self._canaries_due += self.fleet.canaries
        if int(self._canaries_due) > int(self._canaries_due - self.fleet.canaries):
            self.seen.canaries_due += self.env.now >= self._begin
        self._done[one.ticket].succeed()

    def _duty_is_due(self) -> bool:
        return self._spread_due or self._canaries_due >= 1

    def _duty(self) -> Waits:
        """Measure something beside submissions; what was of a record that moved meanwhile stays due."""
        since, moves, spread = self.env.now, self._moves, self._spread_due
        seconds = self.fleet.spread if spread else self.fleet.canary
        self._numbers += 1
        yield from self._work(self._numbers, seconds + self.fleet.overhead)
        yield from self._write("transactions", self.fleet.costs.screened, 1)
        self.seen.duties += self._within(since, self.env.now)
        if moves == self._moves and spread:
            self._spread_due = False
        elif moves == self._moves:
            self._canaries_due -= 1
            self.seen.canaries += self.env.now >= self._begin
        self._free += 1
        self._on_duty = False
        self._stir()

    def _onlookers(self) -> Waits:
        """Have all who wait look, one after the other, and tell them what they are told then."""
        costs, told = self.fleet.costs, 0
        while True:
            waiting = len(self._done)
            pause = POLL if costs.every_row else max(POLL, LOOK * waiting)
            yield self.env.timeout(pause)
            changed, told = self._rows != told, self._rows
            views = changed if costs.every_row else pause / HEARTBEAT
            yield from self._write("waiting", (costs.look + costs.view * views) * waiting)


def deck(cases: Sequence[Case], keeps: float | None = None) -> Callable[[random.Random], Case]:
    """Return what draws recorded cases, each as likely; KEEPs as often as `keeps` says, if it does."""
    kept = [case for case in cases if case.verdict == "KEEP"]
    others = [case for case in cases if case.verdict != "KEEP"]
    share = len(kept) / len(cases) if keeps is None else keeps

    def draw(chance: random.Random) -> Case:
        return chance.choice(kept if chance.random() < share else others)

    return draw


def jain(counts: Sequence[float]) -> float:
    """Return Jain's index of fairness: 1 where all have as much, 1 / n where one has all."""
    squares = sum(count * count for count in counts)
    return sum(counts) ** 2 / (len(counts) * squares) if squares else 1.0
