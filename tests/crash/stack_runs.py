"""Kills over the full stack: HTTP and stdio servers, clients, the real guard with its nurseries, runners and builders."""

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from crash import audit, processes
from crash.ledger_runs import Row, Stuck, look
from crash.own_clock import OwnClock
from crash.processes import ROLES, Role
from guard_process import SCHEDULE, problem

from kernelarc_guard.problem import Problem
from kernelarc_guard.protocol import Schedule
from kernelarc_mcp.host.campaign import open_campaign
from kernelarc_mcp.host.host import Host
from kernelarc_mcp.host.settings import CampaignSettings

OVER_HTTP: Final = ("ada", "bob")
OVER_STDIO: Final = ("dan", "eve")
_DEADLINE: Final = 240.0
_LOOK: Final = 0.02
_SHORT: Final = frozenset({"runner", "builder"})
"""They live for a second or less."""


@dataclass
class StackRun:
    """One campaign with four clients, two of them with a server of their own, and kills."""

    folder: Path
    seed: int
    pause: Path | None = None
    """Clients submit nothing while it exists."""
    rows: list[Row] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._choice = random.Random(self.seed)
        self._clock = OwnClock()
        self._notes = self.folder.with_name(f"{self.folder.name}-notes")
        self._notes.mkdir()
        self._stop = self._notes / "stop"
        settings = CampaignSettings(
            name="crashes",
            problem="scaled_tanh",
            agents=[*OVER_HTTP, *OVER_STDIO],
            attempts=100_000,
            pool=True,
            r_draft=1000,
            schedule=Schedule.model_validate(
                SCHEDULE | {"start_seconds": 60.0, "call_seconds": 30.0, "build_seconds": 120.0}
            ),
        )
        self._tokens = dict(
            Host.create(self.folder, settings, Problem.model_validate(problem()), None)
        )
        self._port = 0
        self._server: subprocess.Popen[bytes] | None = None
        self._clients: dict[str, subprocess.Popen[bytes]] = {}

    def kills(self, roles: Iterable[Role]) -> Iterator[Row]:
        """Kill one process of each role, in that order; each time wait for the next verdict."""
        self._start()
        for role in roles:
            yield self._kill(role)

    def finish(self) -> list[str]:
        """Let the clients come to an end and return what is wrong then."""
        self._stop.touch()
        self._until(lambda: self._all_alive() and self._all_ended())
        wrong = audit.at_the_end(self.folder, self._answered(), self._sent())
        return wrong + self._verdicts_told()

    def close(self) -> None:
        """End everything that is left."""
        for process in [*self._clients.values(), *([self._server] if self._server else [])]:
            if process.poll() is None:
                process.kill()
            process.wait()

    @property
    def submissions(self) -> int:
        """Return how many were charged."""
        return len(self._sent())

    def _kill(self, role: Role) -> Row:
        began = self._clock.now()
        if role not in _SHORT:
            time.sleep(self._choice.uniform(0.0, 1.5))
        while True:
            self._until(lambda: bool(self._pids(role)))
            pids = sorted(self._pids(role))
            stage = self._stage()
            if not pids:
                continue
            victim = self._choice.choice(pids)
            try:
                os.kill(victim, signal.SIGKILL)
            except ProcessLookupError:
                continue
            break
        what = processes.name(victim) or role
        wrong = audit.now(self.folder, self._answered())
        before = self._verdicts()
        self._until(lambda: self._all_alive() and (self._paused() or self._verdicts() > before))
        took = round(self._clock.now() - began, 3)
        row = Row(self.seed, len(self.rows) + 1, role, stage, 0, what, wrong, took)
        self.rows.append(row)
        return row

    def _pids(self, role: Role) -> list[int]:
        clients = [one.pid for one in self._clients.values() if one.poll() is None]
        match role:
            case "HTTP server":
                return [] if self._server is None or self._server.poll() else [self._server.pid]
            case "stdio server":
                return processes.servers_of(clients)
            case "client":
                return clients
            case "dispatcher":
                return processes.dispatcher(self.folder)
            case "guard":
                return processes.guards(self.folder)
            case "nursery":
                return processes.nurseries(self.folder)
            case "runner":
                return processes.runners(self.folder)
            case "builder":
                return processes.builders(self.folder)

    def _stage(self) -> str:
        """Return what is being done with the submission at hand."""
        judging = look(
            self.folder,
            "SELECT p.stage FROM submission s LEFT JOIN progress p ON p.ticket = s.ticket"
            " WHERE s.state = 'judging'",
        )
        if judging:
            return str(judging[0][0] or "claimed")
        calibrated = look(self.folder, "SELECT 1 FROM event WHERE kind = 'calibrated'")
        return "nothing judged" if calibrated else "calibrating"

    def _start(self) -> None:
        """Start again what does not live."""
        if self._server is None or self._server.poll() is not None:
            self._serve()
        for agent in (*OVER_HTTP, *OVER_STDIO):
            client = self._clients.get(agent)
            if client is None or client.poll() not in (None, 0):
                self._clients[agent] = self._client(agent)

    def _all_alive(self) -> bool:
        self._start()
        return True

    def _all_ended(self) -> bool:
        return all(client.poll() == 0 for client in self._clients.values())

    def _serve(self) -> None:
        said = self._notes / "server.log"
        with said.open("ab") as log:
            at = log.tell()
            self._server = subprocess.Popen(
                [
                    *(sys.executable, "-m", "kernelarc_mcp", "serve", str(self.folder)),
                    *("--http", f"127.0.0.1:{self._port}"),
                ],
                stdin=subprocess.DEVNULL,
                stderr=log,
            )
        server = self._server

        def listening() -> bool:
            if server.poll() is not None:
                raise Stuck(f"the server ended: {said.read_text()[-2000:]}")
            return b"/mcp" in said.read_bytes()[at:]

        self._until(listening)
        line = next(x for x in said.read_bytes()[at:].splitlines() if b"/mcp" in x)
        self._port = int(line.rpartition(b"/mcp")[0].rpartition(b":")[2])

    def _client(self, agent: str) -> subprocess.Popen[bytes]:
        where = (
            ["--url", f"http://127.0.0.1:{self._port}/mcp"]
            if agent in OVER_HTTP
            else ["--folder", str(self.folder)]
        )
        words = [
            *(sys.executable, str(Path(__file__).with_name("stack_client.py"))),
            *("--agent", agent, "--seed", str(self.seed)),
            *("--notes", str(self._notes), "--stop", str(self._stop)),
        ]
        if self.pause is not None:
            words += ["--pause", str(self.pause)]
        with (self._notes / f"{agent}.log").open("ab") as log:
            return subprocess.Popen(
                [*words, *where],
                stdin=subprocess.DEVNULL,
                stderr=log,
                env={**os.environ, "KERNELARC_TOKEN": self._tokens[agent]},
            )

    def _sent(self) -> set[tuple[str, str]]:
        return {
            (path.stem, line)
            for path in self._notes.glob("*.sent")
            for line in path.read_text().splitlines()
        }

    def _told(self) -> list[list[str]]:
        return [
            json.loads(line)
            for path in sorted(self._notes.glob("*.answers"))
            for line in path.read_text().splitlines()
        ]

    def _answered(self) -> list[tuple[str, str, str]]:
        return [(agent, request, ticket) for agent, request, ticket, *_ in self._told()]

    def _verdicts(self) -> int:
        return len(look(self.folder, "SELECT 1 FROM submission WHERE state = 'done'"))

    def _verdicts_told(self) -> list[str]:
        """Return where a client was told another verdict than the ledger has."""
        campaign = open_campaign(self.folder)
        try:
            with campaign.journal.reading() as state:
                has = {t: [str(a.verdict), str(a.reason)] for t, a in state.attempts.items()}
        finally:
            campaign.close()
        return [f"{ticket} was told {v}" for _, _, ticket, *v in self._told() if has[ticket] != v]

    def _paused(self) -> bool:
        return self.pause is not None and self.pause.exists()

    def _until(self, condition: Callable[[], object]) -> None:
        limit = self._clock.now() + _DEADLINE
        while not condition():
            if self._clock.now() > limit:
                said = subprocess.run(
                    ["ps", "-eo", "pid,ppid,stat,etimes,wchan:20,args"],
                    capture_output=True,
                    text=True,
                ).stdout
                (self._notes / "processes.txt").write_text(said)
                raise Stuck(f"{self.folder}: seed {self.seed}, after {len(self.rows)} kills")
            time.sleep(_LOOK)


def roles_of(seed: int, count: int) -> list[Role]:
    """Return which processes a run kills, in an order by its seed, each about as often."""
    every = [role for _ in range(-(-count // len(ROLES))) for role in ROLES]
    chosen = random.Random(seed).sample(every, len(every))
    return chosen[:count]
