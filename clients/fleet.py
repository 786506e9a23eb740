"""Run headless agents on one campaign: Claude Code, Codex and Gemini CLI, in turn, one for each agent.

    kernelarc-mcp serve DIR --http 127.0.0.1:8765 &
    python fleet.py DIR --client claude codex --agents 4 --model claude=opus --work fleet --minutes 120

Each agent works in a folder of its own below `--work`, with a token of its own (in its environment
only) and what `kernelarc-mcp connect --write` puts there. One that stops while it has attempts left is
started again, at most `--restarts` times. All stop when the attempts are spent or the minutes are
over. What a client says it used becomes a row of the campaign's ledger; `kernelarc-mcp status` shows the sums.
`--dry-run` prints the commands.
"""

import argparse
import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

# A checkout and a wheel both ship this folder as plain files, not as a package.
sys.path.insert(0, str(Path(__file__).resolve().parent))

from headless import COMMANDS, ENVIRONMENT, Usage, prepare, usage_of

COMMAND: Final = [sys.executable, "-P", "-m", "kernelarc_mcp"]
PROMPT: Final = (
    "Use the kernelarc skill and the tools of the kernelarc server: optimise this campaign's kernel "
    "until the directive is STOP, then report what you found."
)
GRACE_SECONDS: Final = 120.0
"""After the last verdict: time to write conclusions."""
SHORT_SECONDS: Final = 30.0
"""A run that ended sooner had something wrong with it: the next one waits."""
LOOK_SECONDS: Final = 1.0
STATUS_SECONDS: Final = 15.0
"""Between two looks at the ledger, when nobody stopped."""


@dataclass
class Member:
    """One agent of the fleet and the process that is it now."""

    agent: str
    client: str
    command: list[str]
    folder: Path
    model: str = ""
    """What it was asked to use; empty: the client's own choice."""
    token: str = ""
    process: subprocess.Popen[bytes] | None = None
    runs: int = 0
    short: int = 0
    """Runs in a row that ended soon."""
    began: float = 0.0
    not_before: float = 0.0

    def log(self) -> Path:
        """Return where this run's output goes."""
        return self.folder.parent / f"{self.agent}.{self.runs}.log"


class Fleet:
    """Starts its members, starts again those that stop too early, and stops all."""

    def __init__(self, campaign: Path, members: list[Member], restarts: int) -> None:
        self._campaign = campaign
        self._members = members
        self._restarts = restarts
        # Another fleet on the same campaign counts its runs from 1 too.
        self._name = f"fleet-{datetime.now(UTC):%Y%m%dT%H%M%S}-{os.getpid()}"
        self._spent_at: float | None = None
        self._status: dict[str, Any] = {}
        self._status_at = 0.0

    def run(self, seconds: float) -> None:
        """Run until the attempts are spent, nobody may start again, or `seconds` are over."""
        end = time.monotonic() + seconds
        try:
            while time.monotonic() < end and self._step():
                time.sleep(LOOK_SECONDS)
        finally:
            for member in self._members:
                self._stop(member)

    def _step(self) -> bool:
        """Look once after everybody; return whether there is anything to wait for."""
        for member in self._members:
            if member.process is not None and member.process.poll() is not None:
                self._ended(member)
                self._status = {}
        status = self._looked()
        left = {row["agent"]: row["attempts_left"] for row in status["agents"]}
        if not (status["queued"] or status["judging"] or any(left[m.agent] for m in self._members)):
            self._spent_at = self._spent_at or time.monotonic()
        going = False
        for member in self._members:
            if member.process is None and left[member.agent] and member.runs <= self._restarts:
                going = True
                if time.monotonic() >= member.not_before:
                    self._start(member)
            going = going or member.process is not None
        over = self._spent_at is not None and time.monotonic() > self._spent_at + GRACE_SECONDS
        return going and not over

    def _looked(self) -> dict[str, Any]:
        if not self._status or time.monotonic() > self._status_at + STATUS_SECONDS:
            self._status = command_json("status", str(self._campaign), "--json")
            self._status_at = time.monotonic()
        return self._status

    def _start(self, member: Member) -> None:
        member.runs += 1
        member.began = time.monotonic()
        given = {**os.environ, **ENVIRONMENT[member.client], "KERNELARC_TOKEN": member.token}
        with member.log().open("wb") as log:
            member.process = subprocess.Popen(
                member.command,
                cwd=member.folder,
                env=given,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        say(f"{member.agent}: {member.client}, run {member.runs}")

    def _ended(self, member: Member) -> None:
        assert member.process is not None
        seconds = time.monotonic() - member.began
        used = usage_of(member.client, member.log().read_text("utf-8", errors="replace"))
        status = member.process.returncode
        member.process = None
        member.short = member.short + 1 if seconds < SHORT_SECONDS else 0
        member.not_before = time.monotonic() + (min(60.0, 2.0**member.short) if member.short else 0)
        self._record(member, status, seconds, used)

    def _record(self, member: Member, status: int, seconds: float, used: Usage) -> None:
        known = {
            "--input-tokens": used.input_tokens,
            "--output-tokens": used.output_tokens,
            "--cost": used.cost,
            "--cached-tokens": used.cached_tokens,
            "--model": used.model or member.model or None,
        }
        said = [f"{option}={number}" for option, number in known.items() if number is not None]
        run = f"{self._name}-{member.runs}"
        options = ["--run", run, "--client", member.client, *said]
        command_json("usage", str(self._campaign), member.agent, *options, "--json")
        say(f"{member.agent}: ended with status {status} after {seconds:.0f} s, {used}")

    def _stop(self, member: Member) -> None:
        process = member.process
        if process is None:
            return
        for number in (signal.SIGTERM, signal.SIGKILL):
            if process.poll() is None:
                with suppress(ProcessLookupError):
                    os.killpg(process.pid, number)
                with suppress(subprocess.TimeoutExpired):
                    process.wait(10)
        self._ended(member)


def say(text: str) -> None:
    print(text, flush=True)


def command_json(*arguments: str, **extra: str) -> dict[str, Any]:
    """Return what a command of kernelarc-mcp prints as JSON; end with its own words if it fails."""
    done = subprocess.run([*COMMAND, *arguments], stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        sys.exit(done.returncode)
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def members_of(chosen: argparse.Namespace, agents: list[str]) -> list[Member]:
    """Return the fleet's members: agents in the campaign's order, clients in turn."""
    models = dict(pair.partition("=")[::2] for pair in chosen.model)
    members = []
    for number, agent in enumerate(agents[: chosen.agents]):
        client = chosen.client[number % len(chosen.client)]
        make: Callable[[str, str, str], list[str]] = COMMANDS[client]
        model = models.get(client, "")
        command = make(chosen.prompt, model, chosen.url)
        members.append(Member(agent, client, command, chosen.work / agent, model))
    return members


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Run headless agents on one campaign.")
    parser.add_argument("campaign", type=Path, metavar="DIR", help="the campaign's directory")
    parser.add_argument(
        "--url",
        default="http://127.0.0.1:8765/mcp",
        help="its running server (.../c/NAME/mcp on one of several campaigns)",
    )
    parser.add_argument("--client", nargs="+", choices=sorted(COMMANDS), default=["claude"])
    parser.add_argument("--agents", type=int, default=1, help="the first so many of the campaign")
    parser.add_argument(
        "--model", nargs="*", default=[], metavar="CLIENT=MODEL", help="which model a client asks"
    )
    parser.add_argument("--work", type=Path, default=Path("fleet"), help="the agents' folders")
    parser.add_argument("--restarts", type=int, default=3, help="of each agent, at most")
    parser.add_argument("--minutes", type=float, default=60.0, help="stop all after so long")
    parser.add_argument("--prompt", default=PROMPT)
    parser.add_argument("--dry-run", action="store_true", help="print the commands only")
    chosen = parser.parse_args()
    for pair in chosen.model:
        if pair.partition("=")[0] not in COMMANDS or not pair.partition("=")[2]:
            parser.error(f"--model: {pair!r}: expected CLIENT=MODEL, such as claude=opus")
    return chosen


def main(chosen: argparse.Namespace) -> None:
    chosen.work = chosen.work.resolve()
    status = command_json("status", str(chosen.campaign), "--json")
    agents = [row["agent"] for row in status["agents"]]
    if chosen.agents > len(agents):
        sys.exit(f"fleet: the campaign has {len(agents)} agents ({', '.join(agents)})")
    members = members_of(chosen, agents)
    for program in dict.fromkeys(member.command[0] for member in members):
        if not chosen.dry_run and shutil.which(program) is None:
            sys.exit(f"fleet: {program} is not installed here, or not on the PATH")
    for member in members:
        if chosen.dry_run:
            given = [f"{name}={value}" for name, value in ENVIRONMENT[member.client].items()]
            say(f"cd {member.folder} && {' '.join([*given, shlex.join(member.command)])}")
            continue
        member.token = command_json("agent", "add", str(chosen.campaign), member.agent, "--json")[
            "token"
        ]
        prepare(COMMAND, chosen.campaign, member.client, chosen.url, member.token, member.folder)
    if not chosen.dry_run:
        Fleet(chosen.campaign, members, chosen.restarts).run(60 * chosen.minutes)


if __name__ == "__main__":
    main(arguments())
