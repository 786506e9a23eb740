"""A campaign's server under load, as tables: 64 readers, 16 submitters at once, and 100,000 rows.

    python -m benchmarks.load --out load.md

Reading: agents over HTTP, half of them in each protocol era, each about one call a second, on a campaign of as many agents that a
scripted guard has filled; the same load in turn on a bare SDK server with one tool that echoes, and with one that says our answers again:
what they cost by their size alone. Submitting: agents submit at once
what the gate refuses and what a scripted guard judges, each submission sent twice with one request id, the first agent much more
than the others. Rows: the same calls in turn on a campaign of a few rows and on one of many, in this process. Exit status 1 where
a bound of the issue does not hold.
"""

import argparse
import gc
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Final

import anyio

from benchmarks.load_agents import Agent, agents_of, quantile_row
from benchmarks.load_campaign import KERNEL, create, grow, scripted_guard
from benchmarks.load_reading import reading
from kernelarc_mcp.cli.children import start_server
from kernelarc_mcp.host.events import Judging, read
from kernelarc_mcp.host.host import Host
from kernelarc_mcp.host.ledger import Ledger
from kernelarc_mcp.host.usage import Used

SHARES: Final = 2.0
FLAT: Final = 2.0
"""p99 with many rows over p99 with few."""


def main() -> int:
    """Run the parts and print their tables."""
    options = arguments()
    with tempfile.TemporaryDirectory(prefix="kernelarc-load-") as folder, ExitStack() as ends:
        root = Path(folder)
        guard = scripted_guard(root)
        texts, faults = [], []
        for part, run in {
            "reading": partial(reading, root, guard, options, ends),
            "submitting": partial(submitting, root, guard, options, ends),
            "rows": partial(growing, root, options),
        }.items():
            if part in options.only:
                text, found = run()
                texts.append(text)
                faults += found
                print(text, flush=True)
    if options.out:
        options.out.write_text("\n".join(texts), encoding="utf-8")
    for fault in faults:
        print(f"FAULT: {fault}", file=sys.stderr)
    return 1 if faults else 0


def arguments() -> argparse.Namespace:
    """Return the command line's options."""
    parser = argparse.ArgumentParser(description="Put a campaign's server under load.")
    parts = ["reading", "submitting", "rows"]
    parser.add_argument("--only", nargs="+", choices=parts, default=parts)
    parser.add_argument("--readers", type=int, default=64)
    parser.add_argument("--slices", type=int, default=8, help="of each of the two servers, in turn")
    parser.add_argument("--slice-seconds", type=float, default=10.0)
    parser.add_argument("--submitters", type=int, default=16)
    parser.add_argument(
        "--each", type=int, default=6, help="submissions of each; the first: 5 times"
    )
    parser.add_argument("--rows", type=int, nargs=2, default=[100, 100_000])
    parser.add_argument(
        "--calls", type=int, default=1000, help="of each tool on each number of rows"
    )
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out", type=Path)
    return parser.parse_args()


def submitting(
    root: Path, guard: str, options: argparse.Namespace, ends: ExitStack
) -> tuple[str, list[str]]:
    """Have agents submit at once; check the ledger and the order of service."""
    counts = [options.each] * options.submitters
    counts[0] *= 5
    tokens = create(root / "submit", options.submitters, sum(counts) * options.submitters)
    child, url = start_server(root / "submit", guard, root / "submit.log")
    ends.callback(child.stop)
    began = time.monotonic()
    taken: list[float] = []
    anyio.run(_submit_all, url, list(tokens.values()), counts, taken)
    seconds = time.monotonic() - began
    child.stop()
    command = [sys.executable, "-m", "kernelarc_mcp", "verify", str(root / "submit")]
    verified = subprocess.run(command, stdout=subprocess.DEVNULL, check=False).returncode
    ledger = Ledger.open_read_only(root / "submit")
    events = [read(row) for row in ledger.rows_after(0)]
    ledger.close()
    kinds = [event.body.kind for event in events]
    judged = sum(isinstance(event.body, Judging) for event in events)
    served = [(str(one.body.kind), one.agent, one.submission) for one in events if one.submission]
    waited = longest_wait(served, options.submitters)
    name, count, middle, high = quantile_row("submit_candidate", taken)
    lines = [
        "| agents | submissions | sent twice | charged | judged | verdicts | s | longest wait, in shares"
        f" | verify | {name} p50 ms | p99 ms |",
        "|---|---|---|---|---|---|---|---|---|---|---|",
        f"| {options.submitters} | {sum(counts)} | {count - sum(counts)} | {kinds.count('submitted')}"
        f" | {judged} | {kinds.count('settled')} | {seconds:.1f} | {waited:.2f}"
        f" | {'clean' if not verified else 'FAILED'} | {middle:.1f} | {high:.1f} |",
    ]
    faults = []
    if verified:
        faults.append("verify refuses the campaign")
    if not kinds.count("submitted") == kinds.count("settled") == sum(counts):
        faults.append("an attempt was lost or charged twice")
    if waited > SHARES:
        faults.append(f"an agent waited for {waited:.2f} times its share")
    return "\n".join(lines) + "\n", faults


async def _submit_all(url: str, tokens: list[str], counts: list[int], taken: list[float]) -> None:
    async with agents_of(url, tokens) as agents:
        for agent in agents:
            await agent.call("get_brief", {})
        async with anyio.create_task_group() as group:
            for number, (agent, count) in enumerate(zip(agents, counts, strict=True)):
                group.start_soon(_submit_some, agent, number, count, taken)


async def _submit_some(agent: Agent, number: int, count: int, taken: list[float]) -> None:
    tickets = []
    for turn in range(count):
        plan = ("gain:-4.0", "wrong", "gain:-1.0", "broken")[turn % 4]
        sent: dict[str, object] = {
            "source": KERNEL.format(1000 * number + turn, plan),
            "summary": f"Try {turn}.",
            "request_id": f"{number}-{turn}",
            "entry_point": "gone.py::run" if turn % 5 == 4 else "",
            "wait_seconds": 0,
        }
        answers = []
        for _ in range(2):
            began = time.perf_counter()
            answers.append(await agent.call("submit_candidate", sent))
            taken.append(1000 * (time.perf_counter() - began))
        assert answers[0]["ticket"] == answers[1]["ticket"] and not answers[1]["charged"]
        tickets.append(answers[0]["ticket"])
    for ticket in tickets:
        turn, state = 1, ""
        while state != "done":
            wait = {"ticket": ticket, "turn": turn}
            state = (await agent.call("wait_submission", wait))["state"]
            turn += 1


def longest_wait(events: list[tuple[str, str, str]], agents: int) -> float:
    """Return the most judgements that began between an agent's own while it had one queued, in shares.

    `events` are kind, agent and ticket of the rows about submissions. A share is one of as many judgements as there are agents.
    """
    queued: dict[str, set[str]] = {}
    since: dict[str, int] = {}
    begun, longest = 0, 0
    for kind, agent, ticket in events:
        mine = queued.setdefault(agent, set())
        if kind == "submitted":
            if not mine:
                since[agent] = begun
            mine.add(ticket)
        elif kind == "judging":
            longest = max(longest, begun - since[agent] + 1)
            begun += 1
            mine.discard(ticket)
            since[agent] = begun
        elif kind == "settled":
            mine.discard(ticket)
    return longest / agents


def growing(root: Path, options: argparse.Namespace) -> tuple[str, list[str]]:
    """Call the two tools in turn on a campaign of few rows and on one of many."""
    few, many = options.rows
    hosts: dict[int, Host] = {}
    for rows in (few, many):
        create(root / f"rows-{rows}", 8, 2 * many)
        hosts[rows] = host = Host.open(root / f"rows-{rows}")
        for agent in host.agents():
            host.register(agent)
        grow(host, rows)
    calls: dict[str, Callable[[Host], object]] = {
        "view_leaderboard, after another row": lambda host: host.board("agent-2"),
        "view_leaderboard, again": lambda host: host.board("agent-2"),
        "read_memory": lambda host: host.memory("agent-2"),
    }
    taken: dict[tuple[str, int], list[float]] = {(n, r): [] for n in calls for r in hosts}
    gc.collect()
    gc.freeze()
    for number in range(options.calls):
        for rows, host in hosts.items():
            run = Used(run=f"{number}", client="", input_tokens=1, output_tokens=1, cost_usd=None)
            host.record_usage("agent-1", run)
            for name, call in calls.items():
                began = time.perf_counter()
                call(host)
                taken[name, rows].append(1000 * (time.perf_counter() - began))
    for host in hosts.values():
        host.close()
    lines = [
        f"| call | p50 ms, {few} rows | {many} rows | p99 ms, {few} rows | {many} rows | p99 ratio |",
        "|---|---|---|---|---|---|",
    ]
    faults = []
    for name in calls:
        _, _, middle, high = quantile_row(name, taken[name, few])
        _, _, middle_many, high_many = quantile_row(name, taken[name, many])
        ratio = high_many / high
        lines.append(
            f"| {name} | {middle:.2f} | {middle_many:.2f} | {high:.2f} | {high_many:.2f} | {ratio:.2f} |"
        )
        if ratio > FLAT:
            faults.append(f"{name}: p99 is {ratio:.2f} times as long with {many} rows")
    return "\n".join(lines) + "\n", faults


if __name__ == "__main__":
    sys.exit(main())
