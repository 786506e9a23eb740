"""Kills over ledger and dispatcher: real processes and files, the guard a stand-in that imports no torch."""

import os
import random
import signal
import sqlite3
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from dataclasses import asdict, dataclass, field
from multiprocessing.context import ForkServerContext, ForkServerProcess
from pathlib import Path
from typing import Any, Final

from crash import audit
from crash.own_clock import OwnClock
from crash.points import Point, read_log
from crash.victims import Order, answers, start_client, start_dispatcher
from host_places import kernel, make_campaign, planned

from kernelarc_guard.processes import children
from kernelarc_mcp.host.ledger import FILE

AGENTS: Final = ("ada", "bob")
ACTIONS: Final = ("client", "dispatcher", "hand-over", "guard", "outside")
PLANS: Final = (
    *("gain:20", "gain:0", "wrong", "broken", "gain:-20", "gain:4", "die_once", "instant"),
    *("fades:20", "duplicate", "no code", "not text", "cancelled"),
)
"""What the guard is to answer; some are settled without it."""
CLIENT_KINDS: Final = frozenset({"submit", "cancel", "register_agent"})
_DEADLINE: Final = 300.0
_TRIES: Final = 20
"""A point of a transaction that is seldom opened may be missed."""
_LOOK: Final = 0.03
_WAITS: Final = (0.0, 0.6)
"""Seconds before a kill from outside, drawn evenly."""


@dataclass(frozen=True)
class Row:
    """One kill and what was wrong after it."""

    seed: int
    number: int
    process: str
    stage: str
    """Transaction, or last row of the ledger where the kill came from outside."""
    statement: int
    what: str
    wrong: list[str]
    seconds: float

    def as_json(self) -> dict[str, Any]:
        """Return it for a line of JSON."""
        return asdict(self)


class Stuck(Exception):
    """Something did not happen within its time."""


@dataclass
class LedgerRun:
    """One campaign that is killed again and again; what it did follows from its seed but for timing."""

    folder: Path
    guard: str
    seed: int
    made_by: ForkServerContext
    lanes: int = 0
    """Of the fleet whose stand-in `guard` is; 0: it is a guard."""
    rows: list[Row] = field(default_factory=list)
    sent: set[tuple[str, str]] = field(default_factory=set)
    dispatcher: ForkServerProcess | None = None

    def __post_init__(self) -> None:
        self._choice = random.Random(self.seed)
        self._clock = OwnClock()
        self._number = 0
        self._sources: list[str] = []
        self._logs = self.folder.with_name(f"{self.folder.name}-logs")
        self._logs.mkdir()
        make_campaign(
            self.folder,
            attempts=100_000,
            pool=True,
            r_draft=4 if self.seed % 4 == 0 else 1000,
            canary_rate=0.2,
            in_flight=max(1, self.lanes),
        )

    def client_killed(self, point: Point) -> Row | None:
        """Kill a client that submits, let it begin again; None where it never came to the point."""
        began = self._clock.now()
        self.judge()
        agent, orders = self._choice.choice(AGENTS), self._some(2)
        log = self._log()
        process = start_client(self.made_by, self.folder, agent, orders, log, point)
        self._ended(process)
        row = self._row(began, "client", log)
        self.submit(agent, orders)
        return row

    def dispatcher_killed(self, point: Point, standby: bool = False) -> Row | None:
        """Kill a dispatcher that judges, perhaps with another one waiting; None where it never came there."""
        self.stop()
        began = self._clock.now()
        self.submit(self._choice.choice(AGENTS), self._some(2))
        log = self._log()
        process = self._dispatcher(log, point)
        if standby:
            self._until(lambda: _has_log(log) or not process.is_alive())
            self.judge()
        self._until(lambda: not process.is_alive() or self.done())
        if process.is_alive():
            _kill(process)
        self._ended(process)
        return self._row(began, "dispatcher, another waits" if standby else "dispatcher", log)

    def dispatcher_killed_from_outside(self) -> Row:
        """Kill a dispatcher at a random moment."""
        self.judge()
        self.submit(self._choice.choice(AGENTS), self._some(2))
        time.sleep(self._choice.uniform(*_WAITS))
        assert self.dispatcher is not None
        began, stage = self._clock.now(), self._stage()
        _kill(self.dispatcher)
        self._ended(self.dispatcher)
        return self._outside(began, "dispatcher", stage)

    def guard_killed(self) -> Row:
        """Kill the guard of a living dispatcher at a random moment."""
        self.judge()
        self.submit(self._choice.choice(AGENTS), self._some(2))
        assert self.dispatcher is not None and self.dispatcher.pid is not None
        dispatcher = self.dispatcher.pid
        self._until(lambda: bool(children(dispatcher)))
        time.sleep(self._choice.uniform(*_WAITS))
        began, stage = self._clock.now(), self._stage()
        for pid in children(dispatcher):
            os.kill(pid, signal.SIGKILL)
        return self._outside(began, "guard", stage)

    def finish(self) -> list[str]:
        """Judge all that is left and return what is wrong in the end."""
        self.judge()
        self._until(self.done)
        self.stop()
        return audit.at_the_end(self.folder, self._answered(), self.sent)

    def kills(self, actions: Iterable[str], points: Callable[[bool], Point]) -> Iterator[Row]:
        """Do one kill per action; `points` gives the next point of a client or of a dispatcher."""
        for action in actions:
            row: Row | None = None
            for _ in range(_TRIES):
                if action == "client":
                    row = self.client_killed(points(True))
                elif action in ("dispatcher", "hand-over"):
                    row = self.dispatcher_killed(points(False), standby=action == "hand-over")
                elif action == "guard":
                    row = self.guard_killed()
                else:
                    row = self.dispatcher_killed_from_outside()
                if row is not None:
                    break
            if row is None:
                raise Stuck(f"no {action} came to its point in {_TRIES} tries")
            yield row

    def submit(self, agent: str, orders: list[Order]) -> None:
        """Let a client submit undisturbed, as one that was killed does when it is back."""
        self.sent |= {(agent, order.request_id) for order in orders}
        process = start_client(self.made_by, self.folder, agent, orders, self._log(), None)
        self._ended(process)
        if process.exitcode != 0:
            raise Stuck(f"a client ended with {process.exitcode}")

    def judge(self) -> None:
        """See that a dispatcher lives that nobody plans to kill."""
        if self.dispatcher is None or not self.dispatcher.is_alive():
            self.dispatcher = self._dispatcher(self._log(), None)

    def stop(self) -> None:
        """End the dispatcher the hard way."""
        if self.dispatcher is not None:
            _kill(self.dispatcher)
            self._ended(self.dispatcher)
            self.dispatcher = None

    def done(self) -> bool:
        """Say whether nothing is queued or judged."""
        return not look(self.folder, "SELECT 1 FROM submission WHERE state != 'done'")

    def _dispatcher(self, log: Path, point: Point | None) -> ForkServerProcess:
        return start_dispatcher(
            self.made_by, self.folder, self.guard, log, point, fleet=self.lanes > 0
        )

    def _row(self, began: float, process: str, log: Path) -> Row | None:
        _, killed = read_log(log)
        if killed is None:
            return None
        kind, statement, what = killed
        return self._add(began, process, kind, statement, what)

    def _outside(self, began: float, process: str, stage: str) -> Row:
        return self._add(began, process, stage, 0, "(from outside)")

    def _add(self, began: float, process: str, stage: str, statement: int, what: str) -> Row:
        wrong = audit.now(self.folder, self._answered())
        took = round(self._clock.now() - began, 3)
        number = len(self.rows) + 1
        self.rows.append(Row(self.seed, number, process, stage, statement, what, wrong, took))
        return self.rows[-1]

    def catalogue(self) -> dict[str, int]:
        """Judge one submission of each plan undisturbed; return how many statements each transaction has."""
        self.judge()
        self.submit(AGENTS[0], self._orders(PLANS))
        self._until(self.done)
        self.stop()
        found: dict[str, int] = {}
        for log in self._logs.glob("*.log"):
            for kind, statement, _ in read_log(log)[0]:
                found[kind] = max(statement, found.get(kind, 0))
        return found

    def _some(self, count: int) -> list[Order]:
        return self._orders([self._choice.choice(PLANS) for _ in range(count)])

    def _orders(self, plans: Iterable[str]) -> list[Order]:
        orders = []
        for plan in plans:
            self._number += 1
            source = planned(self._number, plan)
            if plan == "no code":
                source = f"def run(:  # {self._number}\n"
            elif plan == "duplicate" and self._sources:
                source = self._choice.choice(self._sources)
            elif plan in ("duplicate", "cancelled"):
                source = kernel(self._number)
            elif plan == "not text":
                source = f"{kernel(self._number)}\x00"
            self._sources.append(source)
            orders.append(Order(f"r{self._number}", source, cancel=plan == "cancelled"))
        return orders

    def _log(self) -> Path:
        return (
            self._logs / f"{len(list(self._logs.glob('*.log'))) + 1:04d}-{time.monotonic_ns()}.log"
        )

    def _answered(self) -> list[tuple[str, str, str]]:
        logs = sorted(self._logs.glob("*.answers"))
        return [one for log in logs for one in answers(log)]

    def _stage(self) -> str:
        ((kind,),) = look(self.folder, "SELECT kind FROM event ORDER BY seq DESC LIMIT 1")
        return f"after {kind}"

    def _until(self, condition: Callable[[], bool]) -> None:
        limit = self._clock.now() + _DEADLINE
        while not condition():
            if self._clock.now() > limit:
                raise Stuck(f"{self.folder}: seed {self.seed}, after {len(self.rows)} kills")
            time.sleep(_LOOK)

    def _ended(self, process: ForkServerProcess) -> None:
        process.join(_DEADLINE)
        if process.is_alive():
            raise Stuck(f"process {process.pid} does not end")


def look(folder: Path, query: str) -> list[tuple[Any, ...]]:
    """Return what a query of a campaign's database gives now; nobody keeps a connection meanwhile."""
    with closing(sqlite3.connect(folder / FILE, timeout=60.0)) as connection:
        return connection.execute(query).fetchall()


def _kill(process: ForkServerProcess) -> None:
    if process.pid is not None and process.is_alive():
        os.kill(process.pid, signal.SIGKILL)


def _has_log(log: Path) -> bool:
    return log.exists() and log.stat().st_size > 0
