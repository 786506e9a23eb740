"""A campaign of two scripted agents on one GPU, capped in time, with what the device was used for.

    python -m benchmarks.gpu_campaign --out FOLDER --seconds 420

Creates the campaign, starts two tuners with a server each over stdio, stops all of them cleanly at
the given second, verifies the ledger and writes into FOLDER: the campaign's backup, the table and
its numbers. `--device cpu` does the same on a CPU with that problem's own workloads and seed.
"""

import argparse
import json
import os
import sys
import time
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path

from filelock import FileLock, Timeout

from benchmarks.campaign_backup import backup
from benchmarks.campaign_time import markdown, read_events, spent
from kernelarc_guard.problem import read_problem
from kernelarc_mcp.cli.children import Child
from kernelarc_mcp.cli.live import Live
from kernelarc_mcp.cli.new import create_campaign, settings_from
from kernelarc_mcp.cli.summary import print_summary
from kernelarc_mcp.cli.verify import check
from kernelarc_mcp.data import data_dir
from kernelarc_mcp.host.dispatcher import LOCK
from kernelarc_mcp.report import read_report

AGENTS = ("agent-1", "agent-2")
_STOPPING = 15.0
"""Seconds that stopping, verifying and packing may take, of those that were given."""
_LOOK = 0.25


def main() -> None:
    """Run the campaign and print what became of it; exit status 1 where it does not verify."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--out", type=Path, required=True, help="folder for what comes out")
    parser.add_argument("--dir", type=Path, help="the campaign's directory; default: OUT/campaign")
    parser.add_argument("--seconds", type=float, default=480.0, help="for everything together")
    parser.add_argument("--device", default="cuda:0")
    parser.add_argument("--problem", default="rmsnorm")
    parser.add_argument("--workloads", default="", help="file of the problem; default: by device")
    parser.add_argument("--attempts", type=int, default=20, help="of each agent")
    parser.add_argument("--r-draft", type=int, default=4)
    parser.add_argument("--canary-rate", type=float, default=0.05)
    parser.add_argument(
        "--grace", type=float, default=15.0, help="nothing is submitted so long before the end"
    )
    parser.add_argument("--first", type=float, default=240.0, help="give up without a verdict then")
    parser.add_argument("--seed", type=int, default=1, help="of the agents' choices")
    options = parser.parse_args()
    begin = time.monotonic()
    options.out.mkdir(parents=True, exist_ok=True)
    folder: Path = options.dir or options.out / "campaign"
    create(options, folder)
    failed = run(options, folder, begin + options.seconds - _STOPPING)
    sys.exit(report(options, folder, time.monotonic() - begin) or failed)


def create(options: argparse.Namespace, folder: Path) -> None:
    """Create the campaign with a limit on its wall time."""
    on_cpu = options.device.startswith("cpu")
    usual = "workload.jsonl" if on_cpu else "workload.gpu.jsonl"
    problem = read_problem(data_dir("kernels") / options.problem, options.workloads or usual)
    settings = settings_from(
        name=folder.resolve().name,
        problem=problem.definition.name,
        device=options.device,
        agents=list(AGENTS),
        attempts=options.attempts * len(AGENTS),
        r_draft=options.r_draft,
        canary_rate=options.canary_rate,
        wall_seconds=max(options.seconds - _STOPPING - options.grace, 1.0),
    )
    create_campaign(folder, problem, settings)


def run(options: argparse.Namespace, folder: Path, until: float) -> bool:
    """Let the agents work, at most until then; say whether one failed."""
    logs = folder / "logs"
    logs.mkdir()
    begin = time.monotonic()
    with ExitStack() as stack:
        live = Live(folder)
        stack.callback(live.close)
        clients = [
            stack.enter_context(_client(options, folder, agent, number, logs))
            for number, agent in enumerate(AGENTS)
        ]
        while any(client.status is None for client in clients) and time.monotonic() < until:
            live.look()
            if not live.verdicts and time.monotonic() > begin + options.first:
                print(f"No verdict within {options.first:g} s: {live.activity()}")
                break
            time.sleep(_LOOK)
        live.look()
        running = [client.name for client in clients if client.status is None]
        if running:
            print(f"Stopping {' and '.join(running)}, {live.activity()}")
        failed = [client for client in clients if client.status not in (None, 0)]
        for client in failed:
            print(f"{client.name} failed: {client.last_line()}")
    # Their servers are still ending: the dispatcher says first what it was in the middle of.
    try:
        with FileLock(folder / LOCK, timeout=_STOPPING):
            pass
    except Timeout:
        print("A server is still at work: the last row may be missing")
    return bool(failed)


def _client(
    options: argparse.Namespace, folder: Path, agent: str, number: int, logs: Path
) -> Child:
    tuner = data_dir("clients") / "tuner.py"
    command = [sys.executable, str(tuner), "--stdio-campaign", str(folder), "--name", agent]
    command += ["--attempts", str(options.attempts), "--seed", str(options.seed + number)]
    here = os.environ.get("KERNELARC_GUARD_PYTHON", sys.executable)
    return Child(agent, command, logs / f"{agent}.log", KERNELARC_GUARD_PYTHON=here)


def report(options: argparse.Namespace, folder: Path, seconds: float) -> bool:
    """Print and write what became of it; say whether the ledger does not verify."""
    findings = check(folder)
    for line in findings:
        print(f"verify: {line}")
    print_summary(read_report(folder))
    events = read_events(folder)
    found = spent(events)
    table = markdown(found)
    print(table)
    size = backup(folder, options.out / "campaign.tar.gz")
    said = "verify: all agree" if not findings else "verify: FAILED"
    print(f"{said}; {len(events)} rows; backup {size} bytes; {seconds:.0f} s")
    (options.out / "campaign_time.md").write_text(table + "\n", encoding="utf-8")
    numbers = {"seconds": seconds, "verified": not findings, **asdict(found)}
    text = json.dumps(numbers, indent=1)
    (options.out / "campaign_time.json").write_text(text + "\n", encoding="utf-8")
    return bool(findings)


if __name__ == "__main__":
    main()
