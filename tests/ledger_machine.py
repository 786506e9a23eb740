"""A state machine over the real host, ledger and dispatcher pieces: several servers on one directory.

Real SQLite files, a guard that answers in this process, a clock that jumps. After every step the ledger's
laws hold; at the end `verify` proves the directory and the memory holds what was concluded, once.
"""

import atexit
import os
import shutil
import tempfile
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from pathlib import Path

import in_process
import pytest
from host_places import make_campaign, planned
from hypothesis import HealthCheck, settings
from hypothesis import seed as seeded
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from kernelarc_guard.protocol import Compare, Request, Result
from kernelarc_mcp.host.dispatcher import machine_id
from kernelarc_mcp.host.duties import Duties
from kernelarc_mcp.host.errors import BadRequest, BudgetSpent, NotAllowed
from kernelarc_mcp.host.events import SEED, read
from kernelarc_mcp.host.extra_work import ExtraWork
from kernelarc_mcp.host.host import Host
from kernelarc_mcp.host.judgement import Claim, Judge
from kernelarc_mcp.host.laws import Laws
from kernelarc_mcp.host.state import CampaignState
from kernelarc_mcp.host.verify import verify

SWIFT = Path("/dev/shm")
"""A disk where flushing costs nothing, on most machines: the steps are about order, not about power cuts."""
STEPS = settings(
    max_examples=10,
    stateful_step_count=200,
    deadline=None,
    database=None,
    suppress_health_check=list(HealthCheck),
)
PLANS = ["broken", "wrong", "gain:0", "gain:-20", "gain:1", "gain:8", "fades:8", "bully:5"]
SERVERS = 3
LANES = 4
SERVER = st.integers(0, SERVERS - 1)
AGENT = st.sampled_from(["ada", "bob"])
CACHE = "cache"
"""No guard of these builds anything."""
DAYS = 30
"""The campaign's time: jumps of the clock end it, and open it again."""


class Clock:
    """A clock that somebody else sets."""

    def __init__(self) -> None:
        self.time = datetime(2026, 1, 1, tzinfo=UTC)

    def __call__(self) -> datetime:
        self.time += timedelta(seconds=1)
        return self.time


def answer(request: Request) -> Result:
    """Answer as the scripted guard does."""
    given = in_process.answer(request)
    assert isinstance(given, Result), given
    return given


@lru_cache(maxsize=2)
def template(pool: bool) -> Path:
    """Return a calibrated campaign to copy."""
    folder = _place() / "campaign"
    atexit.register(shutil.rmtree, folder.parent, ignore_errors=True)
    changes = {"pool": pool, "attempts": 24, "r_draft": 2, "canary_rate": 0.25, "in_flight": 2}
    models = {"device_model": "scripted", "extra_models": ["other"]}
    make_campaign(folder, **changes, **models, wall_seconds=DAYS * 86400.0)
    host = Host.open(folder)
    duties = Duties(host.campaign, "m", CACHE)
    request = duties.calibration()
    assert request is not None
    duties.calibrated(answer(request))
    for agent in host.agents():
        host.register(agent)
    host.close()
    return folder


def _place() -> Path:
    swift = SWIFT if SWIFT.is_dir() and os.access(SWIFT, os.W_OK) else None
    return Path(tempfile.mkdtemp(prefix="ledger-laws-", dir=swift))


class Reaching:
    """An executor that reaches every model; nobody asks it."""

    def reaches(self, model: str) -> bool:
        return True

    async def judge_on(self, model: str, request: Compare, **more: object) -> Result:
        raise AssertionError(model)


@dataclass
class Open:
    """A judgement on one of the lanes."""

    claim: Claim
    screen: Result | None = None
    stake: float | None = None


class LedgerMachine(RuleBasedStateMachine):
    """Clients submit, cancel and conclude through any server while one of them judges, on several lanes."""

    steps = 0
    """Of all machines together."""

    def __init__(self) -> None:
        super().__init__()
        self.place = _place()
        self.folder = self.place / "campaign"
        self.clock = Clock()
        self.hosts: list[Host] = []
        self.laws, self.seen = Laws(), 0
        self.accepted: set[str] = set()
        self.requests: dict[tuple[str, str], str] = {}
        self.told: Counter[tuple[str, str, str]] = Counter()
        self.number = 0
        self.judge: Judge | None = None
        self.open: list[Open] = []
        self.duty: Callable[[], object] | None = None
        """Stores what a duty measured, when its answer has come."""

    @initialize(pool=st.booleans())
    def create(self, pool: bool) -> None:
        shutil.copytree(template(pool), self.folder)
        created = datetime.now(UTC)
        self.clock.time = created + timedelta(minutes=1)
        self.hosts = [Host.open(self.folder, self.clock) for _ in range(SERVERS)]

    def look(self) -> CampaignState:
        with self.hosts[0].campaign.journal.reading() as state:
            return state

    def duties(self) -> Duties:
        return Duties(self.dispatching.campaign, machine_id(), CACHE)

    @property
    def dispatching(self) -> Host:
        return self.hosts[0]

    def _submit(self, server: int, agent: str, plan: str, number: int, request: str) -> None:
        source = planned(number, plan)
        known = self.requests.get((agent, request)) if request else None
        try:
            given = self.hosts[server].submit(agent, source=source, request_id=request)
        except BudgetSpent:
            state = self.look()
            over = state.limit_reached(self.clock.time.isoformat())
            assert over or state.attempts_left(agent) == 0
            return
        if known is None:
            assert given.charged and given.ticket not in self.accepted
            self.accepted.add(given.ticket)
            if request:
                self.requests[agent, request] = given.ticket
        else:
            assert given == (known, False)

    @rule(
        server=SERVER,
        agent=AGENT,
        plan=st.sampled_from(PLANS),
        again=st.booleans(),
        request=st.sampled_from(["", "", "r1", "r2", "r3"]),
    )
    def submit(self, server: int, agent: str, plan: str, again: bool, request: str) -> None:
        self.number += not again
        self._submit(server, agent, plan, self.number, request)

    @rule(agent=AGENT, plan=st.sampled_from(PLANS))
    def submit_twice_at_once(self, agent: str, plan: str) -> None:
        """The same request through two servers at one moment is one attempt."""
        self.number += 1
        request, source = f"both-{self.number}", planned(self.number, plan)
        given: list[tuple[str, bool]] = []
        refused: list[str] = []

        def send(host: Host) -> None:
            try:
                given.append(host.submit(agent, source=source, request_id=request))
            except BudgetSpent as spent:
                refused.append(str(spent))

        threads = [threading.Thread(target=send, args=[host]) for host in self.hosts[:2]]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(given) + len(refused) == 2 and len({ticket for ticket, _ in given}) <= 1
        assert sum(charged for _, charged in given) == bool(given)
        self.accepted |= {ticket for ticket, _ in given}

    @rule(server=SERVER, agent=AGENT, position=st.integers(0, 30))
    def cancel(self, server: int, agent: str, position: int) -> None:
        own = [a.ticket for a in self.look().attempts.values() if a.agent == agent]
        if own:
            self.hosts[server].cancel(agent, own[position % len(own)])

    @precondition(lambda self: self.hosts and len(self.open) < LANES)
    @rule()
    def take_the_next(self) -> None:
        """One more submission is claimed, whatever else is judged or measured meanwhile."""
        claim = self.dispatcher().claim()
        if claim is not None:
            assert claim.ticket not in [one.claim.ticket for one in self.open]
            self.open.append(Open(claim))

    def dispatcher(self) -> Judge:
        if self.judge is None:
            self.judge = Judge(self.dispatching.campaign, machine_id(), 1)
            self.judge.recover()
        return self.judge

    @precondition(lambda self: self.hosts and self.duty is None)
    @rule()
    def begin_a_duty(self) -> None:
        """What is due is measured on a lane while others go on; its answer comes later."""
        self.dispatcher()
        duties = self.duties()
        if (suspect := duties.remeasurement()) is not None:
            record, found = suspect[0], answer(suspect[1])
            self.duty = lambda: duties.remeasured(record, found, "")
        elif (unknown := duties.spread()) is not None:
            record, found = unknown[0], answer(unknown[1])
            self.duty = lambda: duties.spread_measured(record, found, "")
        elif (plan := duties.canary()) is not None:
            canary, found = plan, answer(plan.request)
            self.duty = lambda: duties.canaried(canary, found, "")

    @precondition(lambda self: self.duty is not None)
    @rule()
    def finish_the_duty(self) -> None:
        assert self.duty is not None
        self.duty()
        self.duty = None

    @precondition(lambda self: self.hosts)
    @rule()
    def measure_elsewhere(self) -> None:
        """A record that is owed to the extra board is measured there, or could not be."""
        extras = ExtraWork(
            self.dispatching.campaign, Reaching(), CACHE, "m", deadline=1.0, retry=1.0, poll=1.0
        )
        for plan in extras.due(Reaching()):
            found = answer(plan.request)
            failed = LedgerMachine.steps % 3 == 0
            extras.store(plan, "far", None if failed else found, "It failed." if failed else "")
            extras.store(plan, "far", found, "")  # it is not owed any more

    @precondition(lambda self: self.open)
    @rule(lane=st.integers(0, 9))
    def go_on_judging(self, lane: int) -> None:
        """One step of one of the judgements: the screen, the stake, the confirmation."""
        judge, one = self.dispatcher(), self.open[lane % len(self.open)]
        if one.screen is None:
            one.screen = answer(judge.screen_request(one.claim, CACHE))
            if judge.screened(one.claim, one.screen):
                return
        elif one.stake is None:
            one.stake = judge.stake(one.claim)
            if one.stake is not None:
                return
        else:
            request = judge.confirm_request(one.claim, one.screen, one.stake, CACHE)
            judge.confirmed(one.claim, answer(request))
        self.open.remove(one)

    @precondition(lambda self: self.open)
    @rule(
        lane=st.integers(0, 9),
        cause=st.sampled_from(
            [
                *("guard_died", "guard_refused", "record_failed", "builder_lost"),
                *("device_lost", "stopped"),
            ]
        ),
    )
    def lose_the_guard(self, lane: int, cause: str) -> None:
        one = self.open.pop(lane % len(self.open))
        self.dispatcher().interrupted(one.claim, cause, "")  # type: ignore[arg-type]

    def leave(self) -> None:
        """Forget what a dispatcher knew that is none any more."""
        self.judge, self.duty, self.open = None, None, []

    @precondition(lambda self: self.hosts)
    @rule(server=SERVER)
    def restart(self, server: int) -> None:
        """A server is gone and comes back; with it what it was judging."""
        self.hosts[server].close()
        self.hosts[server] = Host.open(self.folder, self.clock)
        if server == 0:
            self.leave()

    @precondition(lambda self: self.hosts)
    @rule()
    def hand_over(self) -> None:
        """Another server becomes the dispatcher, whatever the last one was doing."""
        self.hosts.append(self.hosts.pop(0))
        self.leave()

    @rule(days=st.sampled_from([-400.0, -40.0, -0.5, 0.1, 3.0, 40.0]))
    def set_the_clock(self, days: float) -> None:
        self.clock.time += timedelta(days=days)

    @precondition(lambda self: self.hosts)
    @rule(server=SERVER)
    def fail_inside_a_transaction(self, server: int) -> None:
        """What raises before the end leaves nothing, in the rows and in the state."""
        journal = self.hosts[server].campaign.journal
        before = journal.ledger.last_seq()
        with pytest.raises(ZeroDivisionError), journal.writing() as writer:
            duty = next((a for a in writer.state.attempts.values() if a.state == "queued"), None)
            if duty is not None:
                writer.owe("workspace", duty.agent)
            raise ZeroDivisionError
        assert journal.ledger.last_seq() == before

    @rule(server=SERVER, agent=AGENT, words=st.sampled_from(["one", "two", "ONE "]))
    def conclude(self, server: int, agent: str, words: str) -> None:
        done = [a for a in self.look().attempts.values() if a.agent == agent and a.verdict]
        if not done:
            return
        proof = done[-1]
        kind = "win" if proof.verdict in ("KEEP", "ACCEPT") else "trap"
        stored = self.hosts[server].conclude(agent, kind, words, "because", proof.ticket)
        said = (agent, proof.ticket, " ".join(words.casefold().split()))
        assert stored.merged or not self.told[said]
        self.told[said] += 1

    @rule(server=SERVER, agent=AGENT)
    def conclude_without_proof(self, server: int, agent: str) -> None:
        for attempt in self.look().attempts.values():
            if attempt.agent == agent and attempt.verdict is None:
                with pytest.raises(NotAllowed):
                    self.hosts[server].conclude(agent, "win", "w", "l", attempt.ticket)
                return
            if attempt.agent == agent and attempt.verdict == "REJECT":
                with pytest.raises(BadRequest):
                    self.hosts[server].conclude(agent, "win", "w", "l", attempt.ticket)
                return

    @precondition(lambda self: self.hosts)
    @rule(one_in=st.integers(0, 7))
    def lose_the_memory(self, one_in: int) -> None:
        """The memory is gone: the ledger has every text."""
        if one_in == 0:
            for path in self.folder.glob("memory.db*"):
                path.unlink()

    @rule(server=SERVER, agent=AGENT)
    def read(self, server: int, agent: str) -> None:
        host = self.hosts[server]
        memory = host.memory(agent, limit=200)
        assert sum(one.seen for one in memory.conclusions) == len(self.look().concluded)
        assert host.board(agent).attempts_used == len(self.accepted)
        assert host.brief(agent).state.attempts_left >= 0

    @rule(attempts=st.integers(1, 3))
    def add_an_agent(self, attempts: int) -> None:
        state = self.look()
        if len(state.agents) < 4:
            pool = state.campaign.settings.pool
            self.hosts[1].add_agent(f"new{len(state.agents)}", 0 if pool else attempts)

    @invariant()
    def the_laws_hold(self) -> None:
        if not self.hosts:
            return
        LedgerMachine.steps += 1
        # Every server in turn: each has replayed the rows by itself.
        host = self.hosts[LedgerMachine.steps % SERVERS]
        with host.campaign.journal.reading() as state:
            for row in host.campaign.journal.ledger.rows_after(self.seen):
                self.laws.note(read(row))
                self.seen = row.seq
            assert self.laws.broken(state) == []
            assert set(state.attempts) == self.accepted
            for (agent, request), ticket in self.requests.items():
                assert state.attempts.requested(agent, request) == ticket
            assert state.record.ticket == SEED or state.record.ticket in self.accepted

    def teardown(self) -> None:
        try:
            if self.hosts:
                self._finish()
        finally:
            for host in self.hosts:
                host.close()
            shutil.rmtree(self.place)

    def _finish(self) -> None:
        """Judge the rest on a sound clock: every accepted submission ends in exactly one verdict."""
        self.leave()
        for lane in range(1000):
            self.take_the_next()
            if self.duty is None:
                self.begin_a_duty()
            else:
                self.finish_the_duty()
            if self.open:
                self.go_on_judging(lane)
            elif self.duty is None and (self.look().quarantined or not self.look().queue()):
                break
        state = self.look()
        assert {a.state for a in state.attempts.values()} <= {"done"} or state.quarantined
        self.read(0, "ada")
        assert verify(self.folder) == []


def machines(seed: int) -> Iterator[tuple[int, int]]:
    """Run ten machines for each seed from this one on; yield the seed and the steps they made."""
    while True:
        before = LedgerMachine.steps
        run_state_machine_as_test(seeded(seed)(LedgerMachine), settings=STEPS)
        yield seed, LedgerMachine.steps - before
        seed += 1
