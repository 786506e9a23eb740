"""The processes that are killed: a client that charges, a dispatcher that settles. They run in forks of a warm server."""

import json
import multiprocessing
import os
import sys
from dataclasses import dataclass
from multiprocessing import forkserver
from multiprocessing.context import ForkServerContext, ForkServerProcess
from pathlib import Path
from typing import Final, Literal

import anyio
from crash.points import Point, arm

from kernelarc_mcp.host.dispatcher import Dispatcher
from kernelarc_mcp.host.fleet_client import FleetClient
from kernelarc_mcp.host.host import Host

Act = Literal["submit", "cancel"]
STOPPED_SECONDS: Final = 0.5
_POLL: Final = 0.05


@dataclass(frozen=True)
class Order:
    """What a client is to do: submit a source under a request id, and perhaps take it back."""

    request_id: str
    source: str
    cancel: bool = False


def context() -> ForkServerContext:
    """Return where the processes come from: a server that has imported all they need."""
    chosen = multiprocessing.get_context("forkserver")
    # Each fork imports the main module again: what that needs is to be there, too.
    others = ("pytest", "crash.ledger_runs", "crash.stack_runs", "crash.standin")
    chosen.set_forkserver_preload([__name__, *(name for name in others if name in sys.modules)])
    # Only the environment tells it where the modules are before it imports them.
    before = os.environ.get("PYTHONPATH")
    os.environ["PYTHONPATH"] = os.pathsep.join(path for path in sys.path if path)
    try:
        forkserver.ensure_running()
    finally:
        if before is None:
            del os.environ["PYTHONPATH"]
        else:
            os.environ["PYTHONPATH"] = before
    return chosen


def start_client(
    made_by: ForkServerContext,
    folder: Path,
    agent: str,
    orders: list[Order],
    log: Path,
    point: Point | None,
) -> ForkServerProcess:
    """Start a client; each answer it gets is a line of `log` with the ending `.answers`."""
    process = made_by.Process(target=_client, args=(folder, agent, orders, log, point), daemon=True)
    process.start()
    return process


def start_dispatcher(
    made_by: ForkServerContext,
    folder: Path,
    guard: str,
    log: Path,
    point: Point | None,
    *,
    fleet: bool = False,
) -> ForkServerProcess:
    """Start a server process's dispatcher: it stands for election, and judges once it is elected.

    With `fleet` the executable `guard` is a fleet's stand-in.
    """
    arguments = (folder, guard, log, point, fleet)
    process = made_by.Process(target=_dispatcher, args=arguments, daemon=True)
    process.start()
    return process


def answers(log: Path) -> list[tuple[str, str, str]]:
    """Return agent, request id and ticket of all that was answered to clients."""
    path = log.with_suffix(".answers")
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    return [(agent, request, ticket) for agent, request, ticket in map(json.loads, lines)]


def _client(folder: Path, agent: str, orders: list[Order], log: Path, point: Point | None) -> None:
    arm(log, point)
    host = Host.open(folder)
    host.register(agent)
    for order in orders:
        ticket, _ = host.submit(agent, source=order.source, request_id=order.request_id)
        _told(log.with_suffix(".answers"), [agent, order.request_id, ticket])
        if order.cancel:
            host.cancel(agent, ticket)
    host.close()


def _dispatcher(folder: Path, guard: str, log: Path, point: Point | None, fleet: bool) -> None:
    arm(log, point)
    dispatcher = Dispatcher(
        Host.open(folder),
        FleetClient([guard]) if fleet else guard,
        poll_seconds=_POLL,
        retry_seconds=_POLL,
        stopped_seconds=STOPPED_SECONDS,
    )
    anyio.run(dispatcher.run)


def _told(path: Path, what: list[str]) -> None:
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    try:
        os.write(file, json.dumps(what).encode() + b"\n")
    finally:
        os.close(file)
