"""The same campaign with 1, 2, 4, ... devices of one host behind Ray: verdicts an hour, and where the time went.

Eight or more scripted agents (clients/submit_folder.py) hand in the same fixed candidates each time. They begin
when the noise is measured (there are no lines to beat); a campaign ends with its last verdict or with its time.
"""

import re
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from benchmarks.campaign_time import read_events
from benchmarks.fleet_account import account
from benchmarks.fleet_candidates import entries, hand_out, problem_of, seed_of
from benchmarks.fleet_machine import Counted, Machine, wait_until
from kernelarc_mcp.cli.children import Child
from kernelarc_mcp.cli.new import settings_from
from kernelarc_mcp.data import data_dir
from kernelarc_mcp.host.host import Host
from kernelarc_mcp.host.verify import verify

Row = dict[str, Any]
URL: Final = re.compile(r"http://\S+/mcp\b")
SERVER_SECONDS: Final = 90.0
LEAST_SECONDS: Final = 20.0
"""With less a campaign is not begun."""
_LOOK: Final = 0.25
_LONG_PLATEAU: Final = 1000
"""No draft is forced: the candidates are fixed."""


@dataclass(frozen=True)
class Campaign:
    """One campaign that is to be run."""

    problem: str
    devices: int
    on_cpu: bool
    agents: int
    submissions: int
    executor: str
    folder: Path


def create(one: Campaign) -> list[tuple[str, str]]:
    """Create the campaign; return its agents with their tokens."""
    problem = problem_of(one.problem, one.on_cpu)
    agents = [f"agent-{number + 1}" for number in range(min(one.agents, one.submissions))]
    settings = settings_from(
        name=one.folder.name,
        problem=problem.definition.name,
        device="cpu" if one.on_cpu else "cuda:0",
        agents=agents,
        attempts=one.submissions,
        pool=True,
        r_draft=_LONG_PLATEAU,
        canary_rate=0.0,
        lines_to_beat=False,
    )
    return Host.create(one.folder, settings, problem, seed_of(one.problem, one.on_cpu))


def serve(stack: ExitStack, one: Campaign, until: float, guard_python: str = "") -> str:
    """Start a campaign's server until the stack is left; return its URL. AssertionError where it ends.

    `guard_python` is who judges where it has no fleet.
    """
    command = [sys.executable, "-m", "kernelarc_mcp", "serve", str(one.folder), "--rate", "0"]
    command += ["--http", "127.0.0.1:0", "--executor", one.executor]
    command += ["--guard-python", guard_python or sys.executable]
    server = stack.enter_context(Child("server", command, one.folder / "serve.log"))

    def listens() -> bool:
        assert server.status is None, f"the server ended: {server.last_line()}"
        return bool(URL.search(server.written()))

    wait_until("the server listens", listens, min(SERVER_SECONDS, until - time.monotonic()))
    found = URL.search(server.written())
    assert found is not None
    return found.group()


def wait_ready(folder: Path, until: float) -> Counted:
    """Return when the noise is measured; AssertionError where that takes too long."""
    counted = Counted(folder)
    wait_until(
        "the campaign is ready",
        lambda: counted.look()["calibrated"] > 0,
        until - time.monotonic(),
    )
    return counted


def run(one: Campaign, until: float) -> Row:
    """Run the campaign, at most until that second of the monotonic clock; return what its ledger tells."""
    begin = time.monotonic()
    tokens = create(one)
    chosen = entries(one.problem, one.on_cpu, one.submissions)
    folders = hand_out(chosen, one.agents, one.folder)
    with ExitStack() as stack:
        url = serve(stack, one, until)
        counted = wait_ready(one.folder, until)
        ready = time.monotonic() - begin
        script = str(data_dir("clients") / "submit_folder.py")
        agents = [
            stack.enter_context(
                Child(
                    agent,
                    [sys.executable, script, str(folder), "--url", url],
                    one.folder / f"{agent}.log",
                    KERNELARC_TOKEN=token,
                )
            )
            for (agent, token), folder in zip(tokens, folders, strict=True)
        ]
        cut = not _wait(lambda: counted.look()["settled"] >= one.submissions, agents, until)
        failed = {
            agent.name: agent.last_line() for agent in agents if agent.status not in (None, 0)
        }
    return {
        "problem": one.problem,
        "devices": one.devices,
        "executor": one.executor.partition(":")[0],
        "agents": len(agents),
        "asked": one.submissions,
        "ready after": round(ready, 1),
        "cut by its time": cut,
        "agents that failed": failed,
        **account(read_events(one.folder), one.devices),
        "verify": verify(one.folder),
    }


def throughput(
    machine: Machine,
    place: Path,
    *,
    problems: list[str],
    counts: list[int],
    agents: int,
    submissions: int,
    until: float,
    keep: Callable[[Row], None],
) -> None:
    """Run each problem's campaign with each number of devices; what fails or has no time is told in its row."""
    runs = [(count, name) for count in counts for name in problems]
    for count in counts:
        mine = [name for number, name in runs if number == count]
        try:
            with machine.fleet(place / f"fleet-{count}", count) as fleet:
                for name in mine:
                    # Fewer devices need longer for the same candidates.
                    weights = [1 / number + 1 for number, _ in runs]
                    share = (until - time.monotonic()) * weights[0] / sum(weights)
                    runs.pop(0)
                    if share < LEAST_SECONDS:
                        why = f"not begun: {share:.0f} s were left for it"
                        keep({"problem": name, "devices": count, "failed": why})
                        continue
                    one = Campaign(
                        name,
                        count,
                        machine.on_cpu,
                        agents,
                        submissions,
                        f"ray://{fleet.address}",
                        place / f"{name.replace('_', '-')}-{count}",
                    )
                    try:
                        keep(run(one, time.monotonic() + share))
                    except AssertionError as error:
                        keep({"problem": name, "devices": count, "failed": str(error)})
        except AssertionError as error:
            runs = [one for one in runs if one[0] != count]
            keep({"problem": "", "devices": count, "failed": str(error)})


def _wait(holds: Callable[[], bool], agents: list[Child], until: float) -> bool:
    """Wait until something holds; False where the time or all agents end before that."""
    while time.monotonic() < until:
        if holds():
            return True
        if all(agent.status is not None for agent in agents):
            return holds()
        time.sleep(_LOOK)
    return holds()
