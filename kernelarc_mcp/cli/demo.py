"""`demo`: a small campaign on this machine's CPU, searched by two scripted agents in parallel."""

import math
import sys
import time
from contextlib import ExitStack
from datetime import datetime
from pathlib import Path
from typing import Annotated

import typer

from kernelarc_guard.decide import Parameters
from kernelarc_guard.problem import read_problem
from kernelarc_guard.protocol import Schedule
from kernelarc_mcp.cli.children import Child, Stopped, start_server, stopped_by_signals
from kernelarc_mcp.cli.console import UserError, out
from kernelarc_mcp.cli.live import Live
from kernelarc_mcp.cli.new import create_campaign, settings_from
from kernelarc_mcp.cli.options import AllowUnsandboxed, GuardPython, guard_python, problem_folder
from kernelarc_mcp.cli.summary import print_summary
from kernelarc_mcp.cli.verify import check
from kernelarc_mcp.data import data_dir
from kernelarc_mcp.report import read_report

AGENTS = ("agent-1", "agent-2")
# A demo has minutes: fewer calls per block and fewer blocks per pair than a campaign. The rule is
# the same, and the calibration measures the noise that this schedule has.
_SCHEDULE = Schedule(calls=3, warmup_calls=1, evict_bytes=32 << 20)
_PARAMETERS = Parameters(blocks_screen=2, blocks_confirm=4)
_LOOK_SECONDS = 0.25
_FIRST_SECONDS = 900.0
"""How long the first verdict may take."""


def demo(
    folder: Annotated[
        Path | None,
        typer.Option(
            "--dir",
            metavar="DIR",
            help="Fresh directory for the campaign.",
            show_default="campaigns/demo-TIME",
        ),
    ] = None,
    problem: Annotated[str, typer.Option(help="A problem of the library.")] = "rmsnorm",
    attempts: Annotated[int, typer.Option(min=1, help="Submissions of each agent.")] = 10,
    r_draft: Annotated[
        int, typer.Option("--r-draft", min=1, help="Plateau length that forces a draft.")
    ] = 3,
    seconds: Annotated[
        float,
        typer.Option(
            min=0,
            help="Stop the clients this long after the first verdict; 0: when they are done. Starting and"
            " measuring the machine before that, a minute or more, is not counted.",
        ),
    ] = 150.0,
    seed: Annotated[int, typer.Option(help="Seed of the clients' choices.")] = 1,
    guard: GuardPython = "",
    allow_unsandboxed: AllowUnsandboxed = False,
) -> None:
    """Run a small campaign: server, two scripted clients, live verdicts, board and verification.

    Exit status 1 where no verdict was reached, a client failed or the campaign does not verify.
    """
    python = guard_python(guard)
    target = folder or Path("campaigns") / f"demo-{datetime.now():%Y%m%d-%H%M%S}"
    read = read_problem(problem_folder(problem))
    settings = settings_from(
        name=target.resolve().name,
        problem=read.definition.name,
        agents=list(AGENTS),
        attempts=attempts * len(AGENTS),
        r_draft=r_draft,
        schedule=_SCHEDULE,
        parameters=_PARAMETERS,
        canary_rate=0.0,
    )
    tokens = create_campaign(target, read, settings)
    out.print(f"Campaign {target}: {problem}, {len(AGENTS)} agents, {attempts} attempts each")
    try:
        with stopped_by_signals():
            failed = _run(target, tokens, python, attempts, seconds, seed)
    except (KeyboardInterrupt, Stopped) as ended:
        why = "Ctrl-C" if isinstance(ended, KeyboardInterrupt) else ended.name
        out.print(
            f"Stopped by {why}; server and clients have ended, nothing is lost."
            f" Campaign directory: {target.resolve()}",
            markup=False,
        )
        raise
    print_summary(read_report(target))
    problems = check(target)
    for line in problems:
        out.print(f"verify: {line}", markup=False)
    out.print("verify: every counter and verdict recomputed" if not problems else "verify: FAILED")
    out.print(f"Campaign directory: {target.resolve()}", markup=False)
    if problems or failed:
        raise typer.Exit(1)


def _run(
    folder: Path,
    tokens: list[tuple[str, str]],
    python: str,
    attempts: int,
    seconds: float,
    seed: int,
) -> bool:
    """Run server and clients to the end, and say whether a client failed or nothing was judged."""
    logs = folder / "logs"
    logs.mkdir()
    tuner = data_dir("clients") / "tuner.py"
    # Calibrating takes the longer the busier the machine is: only what follows is counted.
    deadline = time.monotonic() + _FIRST_SECONDS if seconds else math.inf
    counting = False
    with ExitStack() as stack:
        server, url = start_server(folder, python, logs / "server.out")
        stack.enter_context(server)
        out.print(f"Serving at {url}")
        live = Live(folder)
        stack.callback(live.close)
        clients = [
            stack.enter_context(_client(tuner, url, agent, token, attempts, seed + number, logs))
            for number, (agent, token) in enumerate(tokens)
        ]
        while any(client.status is None for client in clients) and time.monotonic() < deadline:
            if server.status is not None:
                raise UserError(f"the server ended: {server.last_line()} (logs in {logs})")
            live.look()
            if live.verdicts and seconds and not counting:
                counting, deadline = True, time.monotonic() + seconds
            time.sleep(_LOOK_SECONDS)
        live.look()
        running = any(client.status is None for client in clients)
        if not live.verdicts:
            waited = f" within {_FIRST_SECONDS:g} s" if running else ""
            said = f"No verdict was reached{waited}: {live.activity()} (logs in {logs})"
            out.print(said, markup=False)
        elif running:
            out.print(f"Stopped {seconds:g} s after the first verdict, as --seconds says")
        failed = [client for client in clients if client.status not in (None, 0)]
        for client in failed:
            out.print(f"{client.name} failed: {client.last_line()}", markup=False)
        return bool(failed) or not live.verdicts


def _client(
    tuner: Path, url: str, agent: str, token: str, attempts: int, seed: int, logs: Path
) -> Child:
    command = [sys.executable, str(tuner), "--url", url, "--name", agent]
    command += ["--attempts", str(attempts), "--seed", str(seed)]
    return Child(agent, command, logs / f"{agent}.log", KERNELARC_TOKEN=token)
