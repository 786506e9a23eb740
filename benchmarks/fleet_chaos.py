"""A campaign on a fleet while its parts are killed at random, then `verify` and the counts.

    python -m benchmarks.fleet_chaos [--evaluations 300] [--seed 1] [--out fleet_chaos.json]

One server (`serve --executor ray://`), a head and three hosts with a CPU device each, all of this machine. The
guards are the tests' stand-ins: the real rule on made-up times, some tenths of a second an answer. Every few
seconds one of these is done, in a seeded order: an actor is killed, an actor is stopped for longer than a fleet
waits for a sign of life, a host's Ray node is killed, a host's worker is killed and started again, the broker or
the stand-in is killed, and, as often as --heads says, the head is killed and started again. Exit status 1 where
anything is not as it must be.
"""

import argparse
import json
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final

_TESTS = Path(__file__).resolve().parent.parent / "tests"
sys.path[:0] = [str(_TESTS)]

from fleets import (  # noqa: E402
    Fleet,
    Worker,
    children_of,
    fleet_in,
    guard_of,
    parent_of,
    scripted_guard,
)
from host_places import make_campaign, opened, planned  # noqa: E402

from kernelarc_mcp.host.host import Host  # noqa: E402
from kernelarc_mcp.host.verify import verify  # noqa: E402

HOSTS: Final = ("one", "two", "three")
AGENTS: Final = ("ada", "bob", "cy", "dee")
PLANS: Final = ("wrong", "broken", "gain:-50", "gain:0.1", "gain:-50", "wrong", "gain:-3", "gain:9")
KILLS: Final = ("actor",) * 5 + ("stopped actor", "node", "worker", "stand-in", "broker")
PAUSE: Final = 0.25
_STOPPED_SECONDS: Final = 20.0
_BETWEEN: Final = (6.0, 14.0)
_RECOVERY: Final = 150.0
"""Seconds after the loss of the head that a next verdict is waited for."""


class Chaos:
    """A fleet, its server, and what is done to them."""

    def __init__(self, fleet: Fleet, campaign: Path, chance: random.Random) -> None:
        self._fleet = fleet
        self._campaign = campaign
        self._chance = chance
        self._server: subprocess.Popen[bytes] | None = None
        self.recoveries: list[int] = []
        """Seconds from the loss of the head to the next verdict."""
        self.done: Counter[str] = Counter()
        self.missed: Counter[str] = Counter()

    def begin(self) -> None:
        """Start the head, the hosts and the server."""
        self._start_head()
        for name in HOSTS:
            self._start_host(name)
            # One after the other: all at once is more than two cores can start in Ray's patience.
            self._fleet.wait_offered(name)
        command = [sys.executable, "-m", "kernelarc_mcp", "serve", str(self._campaign)]
        command += ["--http", "127.0.0.1:0", "--executor", f"ray://{self._fleet.address}"]
        with (self._fleet.folder / "server.log").open("wb") as log:
            self._server = subprocess.Popen(command, stdout=log, stderr=log)

    def wait_for_a_device(self, until: float) -> None:
        """Return when a host offers its device anew, or at a time."""
        hosts = [self._fleet.workers[name] for name in HOSTS]
        before = [one.said("offered: ") for one in hosts]
        while before == [one.said("offered: ") for one in hosts] and time.monotonic() < until:
            time.sleep(0.2)

    def end(self) -> None:
        """Stop the server."""
        if self._server is not None:
            self._server.terminate()
            self._server.wait(60)

    def strike(self, what: str) -> None:
        """Do one thing; what is not there at the moment is counted as missed."""
        acts: dict[str, Callable[[], bool]] = {
            "actor": self._kill_actor,
            "stopped actor": self._stop_actor,
            "node": self._kill_node,
            "worker": self._kill_worker,
            "stand-in": self._kill_standin,
            "broker": self._kill_broker,
            "head": self._kill_head,
        }
        happened = False
        with suppress(ProcessLookupError, FileNotFoundError):
            happened = acts[what]()
        (self.done if happened else self.missed)[what] += 1

    def _guard(self) -> int:
        name = self._chance.choice(HOSTS)
        return guard_of(str(self._fleet.folder / f"guard-{name}"))

    def _kill_actor(self) -> bool:
        guard = self._guard()
        if guard:
            os.kill(parent_of(guard), signal.SIGKILL)
        return guard > 0

    def _stop_actor(self) -> bool:
        guard = self._guard()
        if guard:
            actor = parent_of(guard)
            os.kill(actor, signal.SIGSTOP)
            time.sleep(_STOPPED_SECONDS)
            os.kill(actor, signal.SIGCONT)
        return guard > 0

    def _kill_node(self) -> bool:
        worker = self._fleet.workers[self._chance.choice(HOSTS)]
        return self._kill_below(worker, "raylet")

    def _kill_worker(self) -> bool:
        name = self._chance.choice(HOSTS)
        self._fleet.workers[name].kill()
        self._start_host(name)
        return True

    def _kill_head(self) -> bool:
        self._fleet.workers["head"].kill()
        self._start_head()
        return True

    def _kill_broker(self) -> bool:
        return self._kill_below(self._fleet.workers["head"], "ray::Broker")

    def _kill_standin(self) -> bool:
        assert self._server is not None
        for child in children_of(self._server.pid):
            if "kernelarc_mcp.fleet.standin" in command_of(child):
                os.kill(child, signal.SIGKILL)
                return True
        return False

    def _kill_below(self, worker: Worker, words: str) -> bool:
        """Kill the first descendant of a worker whose command has these words."""
        waiting = worker.children()
        while waiting:
            one = waiting.pop()
            if words in command_of(one):
                os.kill(one, signal.SIGKILL)
                return True
            waiting += children_of(one)
        return False

    def _start_head(self) -> None:
        self._fleet.add("head", "--device", "none", head=True)

    def _start_host(self, name: str) -> None:
        guard = scripted_guard(self._fleet.folder, name, pause=PAUSE)
        self._fleet.add(name, "--device", "cpu", "--guard-python", guard)


def command_of(process: int) -> str:
    """Return a process's command, of its file's name and its arguments."""
    return Path(f"/proc/{process}/cmdline").read_text().replace("\0", " ")


def submit_all(host: Host, count: int) -> list[str]:
    """Submit all attempts of all agents; return the tickets."""
    return [
        host.submit(
            AGENTS[n % len(AGENTS)], source=planned(n, PLANS[n // len(AGENTS) % len(PLANS)])
        ).ticket
        for n in range(count)
    ]


def settled(host: Host) -> int:
    """Return how many submissions have a verdict."""
    with host.campaign.journal.reading() as state:
        return len(state.attempts) - len(state.unsettled)


def account(host: Host, tickets: list[str], count: int) -> tuple[dict[str, object], list[str]]:
    """Return what the ledger tells, and what of it is wrong."""
    rows = [
        (row.kind, json.loads(row.body), row.submission)
        for row in host.campaign.journal.ledger.rows_after(0)
    ]
    verdicts = Counter(ticket for kind, _, ticket in rows if kind == "settled")
    charged = Counter(ticket for kind, _, ticket in rows if kind == "submitted")
    wrong = [f"{one}: {verdicts[one]} verdicts" for one in tickets if verdicts[one] != 1]
    wrong += [f"{one}: charged {charged[one]} times" for one in tickets if charged[one] != 1]
    with host.campaign.journal.reading() as state:
        left = {agent: state.attempts_left(agent) for agent in AGENTS}
    if any(left.values()) or len(tickets) != count:
        wrong.append(f"attempts left: {left}")
    cut = Counter(body["cause"] for kind, body, _ in rows if kind == "interrupted")
    reasons = Counter(
        f"{body['verdict']} {body['reason']}" for kind, body, _ in rows if kind == "settled"
    )
    for plan, reason in (("wrong", "wrong_result"), ("broken", "build_failed")):
        asked = sum(PLANS[n // len(AGENTS) % len(PLANS)] == plan for n in range(count))
        found = sum(many for name, many in reasons.items() if name.endswith(reason))
        if asked != found:
            wrong.append(f"{asked} submissions are {plan}, and {found} have the verdict {reason}")
    told = {"verdicts": sum(verdicts.values()), "cut": dict(cut), "reasons": dict(reasons)}
    return told, wrong


def main() -> None:
    """Run it and print what happened."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--evaluations", type=int, default=300)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--heads", type=int, default=2, help="how often the head is killed")
    parser.add_argument("--kills", nargs="+", choices=sorted(set(KILLS)), default=KILLS)
    parser.add_argument("--seconds", type=float, default=1500.0, help="after which it has failed")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--keep", type=Path, help="a folder for the campaign and all logs")
    asked = parser.parse_args()
    chance, count = random.Random(asked.seed), asked.evaluations
    heads = [count * (n + 1) // (asked.heads + 1) for n in range(asked.heads)]
    with tempfile.TemporaryDirectory() as own, fleet_in(asked.keep or Path(own)) as fleet:
        folder = fleet.folder
        campaign = folder / "campaign"
        make_campaign(
            campaign,
            agents=list(AGENTS),
            attempts=count,
            in_flight=2,
            canary_rate=0.02,
            r_draft=1000,
        )
        chaos = Chaos(fleet, campaign, chance)
        chaos.begin()
        began = time.monotonic()
        with opened(campaign) as host:
            tickets = submit_all(host, count)
            try:
                while (done := settled(host)) < count:
                    if time.monotonic() - began > asked.seconds:
                        break
                    due = bool(heads) and settled(host) >= heads[0]
                    what = "head" if due else chance.choice(asked.kills)
                    heads = heads[1:] if due else heads
                    chaos.strike(what)
                    print(
                        f"{time.monotonic() - began:6.0f} s  {done:4d} settled  {what}", flush=True
                    )
                    if what == "head":
                        # Everything starts anew; what is killed meanwhile would be killed while it starts.
                        lost = time.monotonic()
                        chaos.wait_for_a_device(lost + _RECOVERY)
                        wait_until_settled(host, settled(host) + 1, lost + _RECOVERY)
                        chaos.recoveries.append(round(time.monotonic() - lost))
                    until = time.monotonic() + chance.uniform(*_BETWEEN)
                    wait_until_settled(host, (heads or [count])[0], until)
                seconds = time.monotonic() - began
            finally:
                chaos.end()
            told, wrong = account(host, tickets, count)
        wrong += [f"verify: {line}" for line in verify(campaign)]
        log = (fleet.folder / "server.log").read_text()
        wrong += [f"server: {line}" for line in re.findall(r"^Traceback.*", log, re.MULTILINE)]
    report = {
        "seed": asked.seed,
        "evaluations": count,
        "seconds": round(seconds),
        "killed": dict(chaos.done),
        "seconds without a verdict after the loss of the head": chaos.recoveries,
        "missed": dict(chaos.missed),
        **told,
        "wrong": wrong,
    }
    print(json.dumps(report, indent=1))
    if asked.out:
        asked.out.write_text(json.dumps(report, indent=1) + "\n")
    sys.exit(bool(wrong))


def wait_until_settled(host: Host, count: int, until: float) -> None:
    """Return when so many are settled, or at a time."""
    while time.monotonic() < until and settled(host) < count:
        time.sleep(0.2)


if __name__ == "__main__":
    main()
