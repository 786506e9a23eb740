"""How many messages a second a campaign's ledger and server can take, on this machine.

    python -m benchmarks.ledger_rate --out docs/measurements/ledger_rate.json

Transactions are those of servers and dispatchers, written with `synchronous=FULL`, with the rows of the campaign recorded on an
H200: by agents of the campaign, then by processes that write at once. Then what reading costs while the campaign grows, what waiting
costs, how large messages are, and what a verdict costs the server's process over HTTP (a scripted guard answers at once). Prints
tables; the file is what `benchmarks.fleet_simulation` takes the server's times from.
"""

import argparse
import json
import multiprocessing
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing.synchronize import Barrier
from pathlib import Path
from statistics import median, quantiles
from typing import Any, Final

import anyio
import httpx2

from benchmarks.ledger_work import Taken, Work, make_campaign
from benchmarks.load_agents import Agent, agents_of
from benchmarks.load_campaign import KERNEL, create, grow, scripted_guard
from benchmarks.message_sizes import known_binaries_bytes, message_sizes
from benchmarks.recorded_cases import Recorded, recorded
from kernelarc_mcp.cli.children import start_server
from kernelarc_mcp.host.host import Host
from kernelarc_mcp.host.usage import Used

PARTS: Final = ("agents", "processes", "reading", "waiting", "messages", "server")
Table = list[dict[str, Any]]


def main() -> int:
    """Run the parts and print their tables."""
    options = arguments()
    held = recorded()
    found: dict[str, Table] = {}
    with tempfile.TemporaryDirectory(prefix="kernelarc-rate-", dir=options.folder) as folder:
        root = Path(folder)
        run: dict[str, Callable[[], Table]] = {
            "agents": lambda: by_agents(root, held, options),
            "processes": lambda: by_processes(root, held, options),
            "reading": lambda: reading(root, options),
            "waiting": lambda: waiting(root, held, options),
            "messages": lambda: sizes(held),
            "server": lambda: server(root, options),
        }
        for part in options.only:
            found[part] = run[part]()
            print(f"{part}\n\n{markdown(found[part])}\n", flush=True)
    if options.out:
        known = json.loads(options.out.read_text()) if options.out.is_file() else {}
        options.out.write_text(json.dumps(known | found, indent=1) + "\n", encoding="utf-8")
    return 0


def arguments() -> argparse.Namespace:
    """Return the command line's options."""
    parser = argparse.ArgumentParser(description="Measure a campaign's ledger and server.")
    parser.add_argument("--only", nargs="+", choices=PARTS, default=list(PARTS))
    parser.add_argument("--seconds", type=float, default=5.0, help="of each row")
    parser.add_argument("--agents", type=int, nargs="+", default=[32, 256, 2048])
    parser.add_argument("--processes", type=int, nargs="+", default=[1, 2, 4, 8])
    parser.add_argument("--rows", type=int, nargs="+", default=[100, 1000, 10_000])
    parser.add_argument("--verdicts", type=int, default=200, help="over HTTP")
    parser.add_argument("--folder", type=Path, help="on the disk that is to be measured")
    parser.add_argument("--out", type=Path)
    return parser.parse_args()


def by_agents(root: Path, held: Recorded, options: argparse.Namespace) -> Table:
    """Time every transaction in one process, by how many agents the campaign has."""
    rows: Table = []
    for agents in options.agents:
        work = Work(root / f"a{agents}", held, make_campaign(root / f"a{agents}", held, agents), 0)
        begun, cpu = time.monotonic(), time.process_time()
        verdicts = 0
        while time.monotonic() < begun + options.seconds:
            work.submit()
            work.judge(signs=2)
            verdicts += 1
        spent = 1000 * (time.process_time() - cpu) / verdicts
        for kind, taken in work.taken.items():
            rows.append({"agents": agents, "transaction": kind, **spread(taken)})
        rows.append(
            {
                "agents": agents,
                "transaction": CPU,
                "median ms": spent,
            }
        )
        work.host.close()
    return rows


def by_processes(root: Path, held: Recorded, options: argparse.Namespace) -> Table:
    """Count verdicts and transactions a second, by how many processes write at once."""
    signs = round(sum(case.signs for case in held.cases) / held.judged)
    rows: Table = []
    for each in (0, signs):
        for processes in options.processes:
            folder = root / f"p{processes}-{each}"
            make_campaign(folder, held, 32)
            spawn = multiprocessing.get_context("spawn")
            with ProcessPoolExecutor(
                processes, mp_context=spawn, initializer=_take, initargs=(spawn.Barrier(processes),)
            ) as pool:
                jobs = [
                    pool.submit(write, folder, place, options.seconds, each)
                    for place in range(processes)
                ]
                ended = [job.result() for job in jobs]
            settled = sum(len(taken.get(kind, [])) for taken in ended for kind in SETTLED)
            written = sum(len(times) for taken in ended for times in taken.values())
            every = [one for taken in ended for times in taken.values() for one in times]
            rows.append(
                {
                    "processes": processes,
                    "signs of life each": each,
                    "verdicts/s": settled / options.seconds,
                    "writes/s": written / options.seconds,
                    **spread(every),
                }
            )
    return rows


CPU: Final = "CPU of a verdict, two signs of life"
SETTLED: Final = ("screened and settled", "confirmed and settled")


_barrier: Barrier | None = None
"""Where this process waits for the others."""


def _take(barrier: Barrier) -> None:
    global _barrier
    _barrier = barrier


def write(folder: Path, place: int, seconds: float, signs: int) -> Taken:
    """Submit and judge for so long, in a process of its own, beginning when all are ready."""
    work = Work(folder, recorded(), [f"agent-{n}" for n in range(1, 33)], place + 1)
    assert _barrier is not None
    _barrier.wait()
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        work.submit()
        work.judge(signs)
    work.host.close()
    return dict(work.taken)


def reading(root: Path, options: argparse.Namespace) -> Table:
    """Time board and memory in one process after every row, while the campaign grows."""
    create(root / "read", 8, 16 * max(options.rows))
    host = Host.open(root / "read")
    for agent in host.agents():
        host.register(agent)
    rows: Table = []
    calls: dict[str, Callable[[], object]] = {
        "view_leaderboard": lambda: host.board("agent-2"),
        "read_memory": lambda: host.memory("agent-2"),
    }
    for many in options.rows:
        grow(host, many)
        reopened = time.perf_counter()
        Host.open(root / "read").close()
        reopened = time.perf_counter() - reopened
        for name, call in calls.items():
            call()
            taken: list[float] = []
            end = time.monotonic() + options.seconds / 2
            number = 0
            while time.monotonic() < end:
                if number % 20 == 0:
                    host.submit(
                        "agent-1",
                        source="x",
                        language="fortran",
                        request_id=f"{many}{name}{number}",
                    )
                number += 1
                taken.append(timed(call))
            rows.append(
                {
                    "submissions": many,
                    "call": name,
                    "calls/s": 1000 * len(taken) / sum(taken),
                    **spread(taken),
                    "opening s": reopened,
                }
            )
    host.close()
    return rows


def waiting(root: Path, held: Recorded, options: argparse.Namespace) -> Table:
    """Time what one who waits costs each tenth of a second, by how many wait."""
    rows: Table = []
    for agents in options.agents:
        folder = root / f"w{agents}"
        work = Work(folder, held, make_campaign(folder, held, agents), 0)
        queued = max(1, agents * 3 // 4)
        ticket, agent = work.queue(queued)[queued // 2]
        host = work.host
        for name, taken in _costs_of_waiting(host, agent, ticket).items():
            rows.append({"agents": agents, "queued": queued, "what": name, **spread(taken)})
        host.close()
    return rows


LOOK: Final = "look whether anything changed"
FIRST_VIEW: Final = "view of a queued submission, first since a row"
NEXT_VIEW: Final = "view of a queued submission, by further ones"
CHOOSE: Final = "choose who is next"


def _costs_of_waiting(host: Host, agent: str, ticket: str) -> Taken:
    taken: Taken = {name: [] for name in (LOOK, FIRST_VIEW, NEXT_VIEW, CHOOSE)}
    for number in range(50):
        run = Used(run=f"{number}", client="", input_tokens=1, output_tokens=1, cost_usd=None)
        host.record_usage(agent, run)
        taken[LOOK].append(timed(lambda: host.changed(ticket)))
        taken[FIRST_VIEW].append(timed(lambda: host.submission(agent, ticket)))
        taken[NEXT_VIEW].append(timed(lambda: host.submission(agent, ticket)))
        taken[CHOOSE].append(timed(lambda: _next(host)))
    return taken


def _next(host: Host) -> str:
    with host.campaign.journal.reading() as state:
        return state.next_queued()


def sizes(held: Recorded) -> Table:
    """Return the sizes of messages, bytes."""
    rows: Table = [
        {
            "message": one.what,
            "count": one.count,
            "median B": one.median,
            "largest B": one.largest,
            "of": one.of,
        }
        for one in message_sizes(held)
    ]
    for judged in (1000, 100_000):
        added = known_binaries_bytes(held, judged)
        rows.append(
            {
                "message": f"digests of {judged} judged binaries, in each request for a screen",
                "count": 1,
                "median B": added,
                "largest B": added,
                "of": "",
            }
        )
    return rows


def server(root: Path, options: argparse.Namespace) -> Table:
    """Have 8 agents submit over HTTP and wait; return what the server's process spent on a verdict."""
    tokens = list(create(root / "http", 8, 4 * options.verdicts).values())
    child, url = start_server(root / "http", scripted_guard(root), root / "http.log")
    try:
        return anyio.run(_served, url, tokens, options.verdicts)
    finally:
        child.stop()


async def _served(url: str, tokens: list[str], verdicts: int) -> Table:
    async with agents_of(url, tokens) as agents, httpx2.AsyncClient() as http:
        for agent in agents:
            await agent.call("get_brief", {})

        async def metric(name: str) -> float:
            answer = await http.get(
                url.removesuffix("/mcp") + "/metrics",
                headers={"Authorization": f"Bearer {tokens[0]}"},
            )
            (line,) = (one for one in answer.text.splitlines() if one.startswith(f"{name} "))
            return float(line.split()[1])

        idle = await metric("process_resident_memory_bytes")
        before, begun = await metric("process_cpu_seconds_total"), time.monotonic()
        async with anyio.create_task_group() as group:
            for number, agent in enumerate(agents):
                group.start_soon(_submit, agent, number, verdicts // len(agents))
        spent = await metric("process_cpu_seconds_total") - before
        done = verdicts // len(agents) * len(agents)
        return [
            {
                "verdicts": done,
                "verdicts/s": done / (time.monotonic() - begun),
                "server's CPU ms a verdict": 1000 * spent / done,
                "server's memory MiB": idle / 2**20,
            }
        ]


async def _submit(agent: Agent, number: int, count: int) -> None:
    for turn in range(count):
        plan = ("gain:-4.0", "wrong", "gain:-1.0", "gain:0.0")[turn % 4]
        sent: dict[str, object] = {
            "source": KERNEL.format(100_000 * (number + 1) + turn, plan),
            "summary": f"Try {turn}.",
            "algorithm": f"number {turn}",
        }
        answer = await agent.call("submit_candidate", sent)
        asked = 1
        while answer["state"] != "done":
            wait = {"ticket": answer["ticket"], "turn": asked}
            answer = await agent.call("wait_submission", wait)
            asked += 1


def timed(call: Callable[[], object]) -> float:
    """Return how long a call took, milliseconds."""
    began = time.perf_counter()
    call()
    return 1000 * (time.perf_counter() - began)


def spread(taken: list[float]) -> dict[str, float]:
    """Return median and p99."""
    high = quantiles(taken, n=100, method="inclusive")[98] if len(taken) > 1 else taken[0]
    return {"median ms": median(taken), "p99 ms": high}


def markdown(rows: Table) -> str:
    """Return rows of one or more sets of columns as tables."""
    columns = list(dict.fromkeys(name for row in rows for name in row))
    lines = ["| " + " | ".join(columns) + " |", "|" + "---|" * len(columns)]
    for row in rows:
        cells = [row.get(name, "") for name in columns]
        shown = [f"{cell:,.2f}" if isinstance(cell, float) else str(cell) for cell in cells]
        lines.append("| " + " | ".join(shown) + " |")
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
