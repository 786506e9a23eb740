"""One run of an experiment: its campaign, its server and its clients, until the attempts are spent."""

import shutil
import sys
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Final

from kernelarc_guard.problem import Problem
from kernelarc_guard.solution import seed_solution
from kernelarc_mcp.cli.children import Child, start_server
from kernelarc_mcp.cli.console import UserError
from kernelarc_mcp.data import data_dir
from kernelarc_mcp.experiments.file import Experiment, filled, settings_of
from kernelarc_mcp.experiments.folder import BUILDS, Run, write_whole
from kernelarc_mcp.experiments.outcome import Outcome, read_outcome
from kernelarc_mcp.host.host import Host
from kernelarc_mcp.host.lenses import eligible_lenses

_CACHE: Final = "cache"
_MAKING: Final = "making"
_LOOK_SECONDS: Final = 0.5
_TRIES: Final = 3
SEEDS_PER_RUN: Final = 100
"""The agents of a run have its seed times this, plus their number, as their own."""


def make_campaign(experiment: Experiment, run: Run, problem: Problem, target: Path) -> None:
    """Create a run's campaign, whole or not at all; builds go to the experiment's shared cache."""
    definition = problem.definition
    strict = definition.kernelarc.tolerance == "strict"
    lenses = eligible_lenses(definition.operator_class, experiment.device, strict=strict)
    settings = settings_of(experiment, run.arm, definition.name, run.number, lenses)
    making = run.folder / _MAKING
    shutil.rmtree(making, ignore_errors=True)
    making.mkdir(parents=True)
    seed = None
    if problem.folder:
        seed = seed_solution(Path(problem.folder), definition, experiment.device)
    Host.create(making, settings, problem, seed)
    (making / _CACHE).symlink_to((target / BUILDS).resolve(), target_is_directory=True)
    making.rename(run.campaign)


def carry_out(
    experiment: Experiment, run: Run, problem: Problem, target: Path, python: str
) -> tuple[Outcome, str]:
    """Bring one run to its end, from wherever it was; return how it stands, and why it is not finished."""
    if not run.campaign.exists():
        make_campaign(experiment, run, problem, target)
    outcome, trouble = read_outcome(run), ""
    for _ in range(_TRIES):
        if outcome.state != "finished":
            trouble = _session(experiment, run, python)
            outcome = read_outcome(run, ended=not trouble)
    if outcome.state == "finished":
        write_whole(run.outcome, outcome.model_dump_json(indent=1) + "\n")
        return outcome, ""
    return outcome, trouble or "a submission was left without a verdict"


def _session(experiment: Experiment, run: Run, python: str) -> str:
    """Serve the campaign to its clients until they have ended; return what went wrong."""
    logs = run.folder / "logs"
    logs.mkdir(exist_ok=True)
    host = Host.open(run.campaign)
    try:
        with ExitStack() as stack:
            server, url = start_server(run.campaign, python, logs / "server.out")
            stack.enter_context(server)
            clients = [
                stack.enter_context(_client(experiment, run, host, agent, number, url))
                for number, agent in enumerate(host.agents(), start=1)
            ]
            return _watch(experiment, host, server, clients)
    finally:
        host.close()


def _watch(experiment: Experiment, host: Host, server: Child, clients: list[Child]) -> str:
    seen, since = -1, time.monotonic()
    while True:
        with host.campaign.journal.reading() as state:
            seq, unsettled = state.seq, len(state.unsettled)
        if seq != seen:
            seen, since = seq, time.monotonic()
        running = [client for client in clients if client.status is None]
        failed = [client for client in clients if client.status not in (None, 0)]
        if failed:
            return f"{failed[0].name} failed: {failed[0].last_line()}"
        if not running and not unsettled:
            return ""
        if server.status is not None:
            return f"the server ended: {server.last_line()}"
        if time.monotonic() - since > experiment.idle_seconds:
            return f"nothing happened for {experiment.idle_seconds:g} s"
        time.sleep(_LOOK_SECONDS)


def _client(
    experiment: Experiment, run: Run, host: Host, agent: str, number: int, url: str
) -> Child:
    # Tokens are shown once: a run that is taken up again needs new ones, and the old ones end.
    host.revoke(agent)
    token = host.add_agent(agent)
    settings = host.settings
    values = {
        "python": sys.executable,
        "clients": str(data_dir("clients")),
        "url": url,
        "agent": agent,
        "seed": str(run.seed * SEEDS_PER_RUN + number),
        "attempts": str(settings.share(number - 1) or settings.attempts),
        "folder": str(run.folder),
    }
    command = filled(experiment.command_of(run.arm), values)
    log = run.folder / "logs" / f"{agent}.log"
    try:
        return Child(agent, command, log, KERNELARC_TOKEN=token, KERNELARC_AGENT=agent)
    except OSError as error:
        raise UserError(f"client: {command[0]} cannot be started: {error.strerror}") from None
