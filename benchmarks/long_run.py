"""Thousands of scripted submissions through 8 clients of one HTTP server: memory, database and directory as they grow.

    python -m benchmarks.long_run --submissions 20000 --measured 200 --out long_run.jsonl
    python -m benchmarks.long_run --report long_run.jsonl --write docs/measurements/long_run.md

Most submissions are ended by the host's gate; every so many-th is judged by the real guard on the CPU. A line is
appended to the file for every 500 submissions. Exit status 1 where a submission has not exactly one verdict, or memory
grew by more than 10 % after the warm-up.
"""

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
from collections import Counter
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

import anyio
import httpx2
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

_TESTS = Path(__file__).resolve().parent.parent / "tests"
sys.path[:0] = [str(_TESTS)]

from crash.own_clock import OwnClock  # noqa: E402
from guard_process import SCHEDULE, problem  # noqa: E402

from kernelarc_guard.problem import Problem  # noqa: E402
from kernelarc_guard.processes import children  # noqa: E402
from kernelarc_guard.protocol import Schedule  # noqa: E402
from kernelarc_mcp.host.campaign import open_campaign  # noqa: E402
from kernelarc_mcp.host.host import Host  # noqa: E402
from kernelarc_mcp.host.settings import CampaignSettings  # noqa: E402
from kernelarc_mcp.host.verify import verify  # noqa: E402

CLIENTS: Final = 8
EVERY: Final = 500
WARM_UP: Final = 0.1
"""Part of the run after which memory is to stay as it is."""
MOST_GROWTH: Final = 1.1
_CALL_SECONDS: Final = 600.0
_PYTHON: Final = "import torch\n\n\ndef run(x, scale):\n    return x * scale + NUMBER\n"


@dataclass(frozen=True)
class Sample:
    """What there was after so many submissions."""

    submissions: int
    judged: int
    seconds: float
    """Without those in which it was stopped."""
    server: int
    """Bytes of memory, as are the next two."""
    guard: int
    """0 where none was started yet."""
    database: int
    """With its write-ahead log."""
    folder: int
    builds: int
    """Entries of the build cache."""


def main() -> None:
    """Run or report."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--submissions", type=int, default=20_000)
    parser.add_argument("--measured", type=int, default=200, help="of them, by the guard")
    parser.add_argument("--out", type=Path, help="a line of JSON for every 500 submissions")
    parser.add_argument("--pause-file", type=Path, help="nothing is submitted while it exists")
    parser.add_argument("--report", type=Path)
    parser.add_argument("--write", type=Path)
    asked = parser.parse_args()
    if asked.report:
        lines = [json.loads(line) for line in asked.report.read_text().splitlines()]
        end: dict[str, Any] = next((one for one in lines if "verified" in one), {})
        text, wrong = report([Sample(**one) for one in lines if "server" in one], end)
        print(text)
        if asked.write:
            asked.write.write_text(text, encoding="utf-8")
        sys.exit(bool(wrong))
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        wrong = anyio.run(Run(Path(folder) / "campaign", asked).run)
    print(json.dumps(wrong))
    sys.exit(bool(wrong))


class Run:
    """One campaign, one server, its clients."""

    def __init__(self, folder: Path, asked: argparse.Namespace) -> None:
        """Make the campaign."""
        self._asked = asked
        self._folder = folder
        settings = CampaignSettings(
            name="long",
            problem="scaled_tanh",
            agents=[f"agent-{n}" for n in range(1, CLIENTS + 1)],
            attempts=asked.submissions,
            pool=True,
            r_draft=1000,
            schedule=Schedule.model_validate(
                SCHEDULE | {"start_seconds": 60.0, "call_seconds": 30.0, "build_seconds": 120.0}
            ),
        )
        self._tokens = dict(Host.create(folder, settings, Problem.model_validate(problem()), None))
        self._done = 0
        self._next = 0
        self._judged = 0
        self._clock = OwnClock()

    async def run(self) -> list[str]:
        """Submit everything; return what is wrong in the end."""
        command = [sys.executable, "-m", "kernelarc_mcp", "serve", str(self._folder)]
        with subprocess.Popen(
            [*command, "--http", "127.0.0.1:0", "--rate", "0"],
            stdin=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        ) as server:
            assert server.stderr is not None
            try:
                said = ""
                while (found := re.search(r"http://\S+/mcp", said)) is None:
                    line = server.stderr.readline()
                    if not line:
                        raise SystemExit(f"the server ended: {said}")
                    said += line
                url = found.group()
                async with anyio.create_task_group() as group:
                    for agent, token in self._tokens.items():
                        group.start_soon(self._client, url, agent, token, server.pid)
                if self._done % EVERY:
                    self._sample(server.pid)
            finally:
                server.terminate()
        wrong = verify(self._folder) + self._count()
        stops = {"stops": self._clock.stops, "stopped": round(self._clock.stopped)}
        end = {"verified": not wrong, "wrong": wrong, "verdicts": self._verdicts()}
        self._note(end | stops)
        return wrong

    async def _client(self, url: str, agent: str, token: str, server: int) -> None:
        headers = {"Authorization": f"Bearer {token}"}
        async with (
            httpx2.AsyncClient(headers=headers, timeout=_CALL_SECONDS) as http,
            Client(streamable_http_client(url, http_client=http)) as client,
        ):
            await _call(client, "get_brief", {})
            while self._next < self._asked.submissions:
                self._next += 1
                await self._one(client, self._next)
                self._done += 1
                if self._done % EVERY == 0:
                    self._sample(server)

    async def _one(self, client: Client, number: int) -> None:
        while self._asked.pause_file is not None and self._asked.pause_file.exists():
            await anyio.sleep(1.0)
        measured = number % (self._asked.submissions // self._asked.measured) == 0
        source = _PYTHON.replace("NUMBER", str(number))
        arguments: dict[str, Any] = {
            "source": source,
            "filename": "kernel.py",
            "summary": f"try {number}: a sentence of the usual length that says what was changed and why",
            "request_id": f"request-{number}",
        }
        if not measured:
            # Three of the ways to end at the gate: no such function, no such entry file, no such file name.
            kinds = (
                {"entry_point": "kernel.py::gone"},
                {"entry_point": "gone.py::run"},
                {"filename": "../k.py"},
            )
            arguments |= kinds[number % 3]
        view = await _call(client, "submit_candidate", arguments)
        turn = 0
        while view["state"] != "done":
            turn += 1
            view = await _call(client, "wait_submission", {"ticket": view["ticket"], "turn": turn})
        self._judged += measured

    def _sample(self, server: int) -> None:
        guards = [pid for pid in children(server) if "kernelarc_guard" in _words(pid)]
        cache = self._folder / "cache"
        entries = sum(1 for kind in ("python", "native") for _ in (cache / kind).glob("*"))
        sample = Sample(
            submissions=self._done,
            judged=self._judged,
            seconds=round(self._clock.now(), 1),
            server=_resident(server),
            guard=max([_resident(pid) for pid in guards], default=0),
            database=sum(path.stat().st_size for path in self._folder.glob("campaign.db*")),
            folder=_size(self._folder),
            builds=entries,
        )
        self._note(asdict(sample))

    def _note(self, line: dict[str, Any]) -> None:
        print(json.dumps(line), flush=True)
        if self._asked.out:
            with self._asked.out.open("a", encoding="utf-8") as file:
                file.write(json.dumps(line) + "\n")

    def _count(self) -> list[str]:
        campaign = open_campaign(self._folder)
        try:
            with campaign.journal.reading() as state:
                count, used = len(state.attempts), sum(a.used for a in state.agents.values())
                open_ones = len(state.unsettled)
                settled = sum(sum(a.verdicts.values()) for a in state.agents.values())
        finally:
            campaign.close()
        wanted = self._asked.submissions
        if (count, used, settled, open_ones) != (wanted, wanted, wanted, 0):
            return [f"{count} submissions, {used} charged, {settled} verdicts, {open_ones} open"]
        return []

    def _verdicts(self) -> dict[str, int]:
        campaign = open_campaign(self._folder)
        try:
            with campaign.journal.reading() as state:
                reasons = Counter(f"{a.verdict} {a.reason}" for a in state.attempts.values())
        finally:
            campaign.close()
        return dict(reasons.most_common())


def report(samples: list[Sample], end: dict[str, Any]) -> tuple[str, list[str]]:
    """Return the page and what is wrong."""
    last = samples[-1]
    warm = next(
        one for one in samples if one.submissions >= WARM_UP * last.submissions and one.guard
    )
    wrong = list(end.get("wrong", []))
    growth = {
        "server": last.server / warm.server,
        "guard": last.guard / warm.guard if last.guard else 1.0,
    }
    wrong += [f"{name}: {g:.2f} times" for name, g in growth.items() if g > MOST_GROWTH]
    shown = [s for s in samples if s is warm or s is last or s.submissions % (4 * EVERY) == 0]
    rows = [
        f"| {s.submissions:,} | {s.judged} | {s.seconds:.0f} | {s.server / 2**20:.0f} |"
        f" {s.guard / 2**20:.0f} | {s.database / 2**20:.1f} | {s.folder / 2**20:.1f} | {s.builds} |"
        for s in shown
    ]
    rate = last.submissions / last.seconds
    verdicts = ", ".join(f"{n:,} {reason}" for reason, n in end.get("verdicts", {}).items())
    return (
        "\n".join(
            [
                "# A long run",
                "",
                f"{last.submissions:,} submissions through {CLIENTS} clients of one HTTP server, {last.judged} of them",
                "judged by the real guard on the CPU, the others ended by the host's gate"
                f" ({rate:.1f} submissions per second on a busy machine of {os.cpu_count()} cores).",
                f"Others stopped it {end.get('stops', 0)} times to measure, for {end.get('stopped', 0)} s in all, which are not counted.",
                "",
                "```",
                f"python -m benchmarks.long_run --submissions {last.submissions} --measured {last.judged} --out FILE",
                "python -m benchmarks.long_run --report FILE --write docs/measurements/long_run.md",
                "```",
                "",
                "| submissions | judged | seconds | server, MiB | guard, MiB | database, MiB | directory, MiB | builds |",
                "|---|---|---|---|---|---|---|---|",
                *rows,
                "",
                f"After the warm-up of {warm.submissions:,} submissions the server's memory grew by"
                f" {100 * (growth['server'] - 1):.1f} %, the guard's by {100 * (growth['guard'] - 1):.1f} %"
                " (both are to stay within 10 %).",
                f"The database takes {last.database / last.submissions / 1024:.2f} KiB a submission, its source included; nothing else grows",
                "without a bound: build cache and logs are pruned at their caps.",
                "",
                f"`verify` at the end: {'clean' if end.get('verified') else end.get('wrong', 'not run')}."
                f" Verdicts: {verdicts}.",
                "",
            ]
        ),
        wrong,
    )


async def _call(client: Client, tool: str, arguments: dict[str, Any]) -> dict[str, Any]:
    result = await client.call_tool(tool, arguments, read_timeout_seconds=_CALL_SECONDS)
    if result.is_error or result.structured_content is None:
        raise SystemExit(f"{tool} was refused: {result.content}")
    answer: dict[str, Any] = result.structured_content
    return answer


def _words(pid: int) -> list[str]:
    return Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace").split("\0")


def _resident(pid: int) -> int:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def _size(folder: Path) -> int:
    total = 0
    for path in folder.rglob("*"):
        try:
            total += path.lstat().st_size
        except FileNotFoundError:
            continue
    return total


if __name__ == "__main__":
    main()
