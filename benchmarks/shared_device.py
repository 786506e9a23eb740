"""How campaigns of one server share this machine's CPU as their device: real guards, a scripted agent each.

    python -m benchmarks.shared_device --campaigns 2 --seconds 150

Counts from the moment on at which all campaigns are calibrated. Prints a Markdown table: verdicts, seconds
that each campaign held the device for its submissions, its share of all, and what `verify` found.
"""

import argparse
import os
import re
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final

import yaml

from kernelarc_guard.problem import read_problem
from kernelarc_mcp.host.campaign import Campaign, open_campaign
from kernelarc_mcp.host.host import Host
from kernelarc_mcp.host.settings import CampaignSettings
from kernelarc_mcp.host.verify import verify

HERE: Final = Path(__file__).resolve().parent
PROBLEM: Final = HERE / "problems" / "small_matmul"
AGENT: Final = "agent-1"
START_SECONDS: Final = 600.0


def create(folder: Path) -> str:
    """Create a campaign of one agent with quick decisions; return its token."""
    quick: dict[str, Any] = yaml.safe_load((HERE / "experiments/small_matmul.yaml").read_text())
    problem = read_problem(PROBLEM)
    settings = CampaignSettings.model_validate(
        {
            "name": folder.name,
            "problem": problem.definition.name,
            "agents": [AGENT],
            "attempts": 10_000,
            **quick["settings"],
        }
    )
    ((_, token),) = Host.create(folder, settings, problem, None)
    return token


def standing(campaign: Campaign) -> tuple[int, float]:
    """Return how many verdicts a campaign has, -1 before its calibration, and its device seconds."""
    with campaign.journal.reading() as state:
        settled = sum(one.verdict is not None for one in state.attempts.values())
        return (-1 if state.calibration is None else settled), state.device_ns / 1e9


def wait_for(what: str, holds: Any) -> None:
    """Return when something holds; fail where it does not in time."""
    end = time.monotonic() + START_SECONDS
    while not holds():
        assert time.monotonic() < end, what
        time.sleep(0.2)


def main() -> None:
    """Run what was asked for."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--campaigns", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=150.0)
    parser.add_argument("--guard-python", default=sys.executable)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as place, ExitStack() as stack:
        runs, log = Path(place) / "runs", Path(place) / "server.log"
        tokens = {f"campaign-{n + 1}": "" for n in range(options.campaigns)}
        for name in tokens:
            tokens[name] = create(runs / name)
        command = [sys.executable, "-m", "kernelarc_mcp", "serve", str(runs)]
        command += ["--guard-python", options.guard_python]
        with log.open("w") as errors:
            server = subprocess.Popen(
                [*command, "--http", "127.0.0.1:0"], stdin=subprocess.DEVNULL, stderr=errors
            )
        stack.callback(server.wait)
        stack.callback(server.terminate)
        wait_for("no server", lambda: "Overview" in log.read_text() or server.poll() is not None)
        found = re.search(r"Overview of them at (\S+)/", log.read_text())
        assert found, log.read_text()
        campaigns = {name: open_campaign(runs / name, read_only=True) for name in tokens}
        wait_for("no calibration", lambda: all(standing(one)[0] >= 0 for one in campaigns.values()))
        clients = []
        for name, token in tokens.items():
            tuner = [sys.executable, str(HERE.parent / "clients" / "tuner.py"), "--name", AGENT]
            clients.append(
                subprocess.Popen(
                    [*tuner, "--url", f"{found[1]}/c/{name}/mcp"],
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    env={**os.environ, "KERNELARC_TOKEN": token},
                )
            )
        wait_for("no verdict", lambda: all(standing(one)[0] > 0 for one in campaigns.values()))
        before = {name: standing(one) for name, one in campaigns.items()}
        time.sleep(options.seconds)
        after = {name: standing(one) for name, one in campaigns.items()}
        for client in clients:
            client.terminate()
            client.wait()
        server.terminate()
        server.wait()
        held = {name: after[name][1] - before[name][1] for name in tokens}
        print("| campaign | verdicts | device seconds | share | verify |")
        print("|---|---|---|---|---|")
        for name, seconds in held.items():
            verdicts = after[name][0] - before[name][0]
            share = seconds / sum(held.values())
            clean = "clean" if not verify(runs / name) else "FAILED"
            print(f"| {name} | {verdicts} | {seconds:.1f} | {share:.0%} | {clean} |")
        print(f"\n{sum(held.values()) / options.seconds:.0%} of {options.seconds:g} s held")


if __name__ == "__main__":
    main()
