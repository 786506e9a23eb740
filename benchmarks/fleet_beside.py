"""One device with its local guard and through Ray: the same campaign twice, the same candidates in turn.

    python -m benchmarks.fleet_gpus beside --out FOLDER --seconds 200

Two servers, `serve --executor local` and `serve --executor ray://`, each with its own campaign, calibrated on the same device.
A client hands each candidate to one and, when that is judged, to the other; who is first changes in the order
A B, B A, so that drift cancels. Time to verdict is what the ledger says: from `submitted` to `settled`.
"""

import sys
import time
from collections import Counter
from contextlib import AsyncExitStack, ExitStack
from datetime import datetime
from pathlib import Path
from statistics import median
from typing import Any, Final

import anyio

from benchmarks.campaign_time import read_events
from benchmarks.fleet_candidates import Entry, entries
from benchmarks.fleet_machine import Counted, Machine
from benchmarks.fleet_throughput import Campaign, create, serve, wait_ready
from kernelarc_mcp.data import data_dir
from kernelarc_mcp.host.events import Confirmed, Screened, Settled, Submitted
from kernelarc_mcp.host.verify import verify

sys.path[:0] = [str(data_dir("clients"))]

from tuning.connection import Campaign as Tools  # noqa: E402
from tuning.connection import over_http  # noqa: E402

Row = dict[str, Any]
HOW: Final = ("local", "ray")
_FIRST_GUESS: Final = 30.0
"""Seconds of a candidate with both before one was judged."""
_SPREAD_SECONDS: Final = 15.0
_LOOK: Final = 0.1


def beside(machine: Machine, place: Path, *, problem: str, submissions: int, until: float) -> Row:
    """Run both campaigns, at most until that second; return times to verdict by candidate."""
    with ExitStack() as stack:
        fleet = stack.enter_context(machine.fleet(place / "beside-fleet", 1))
        executors = {"local": "local", "ray": f"ray://{fleet.address}"}
        guard = machine.guard(place / "beside-fleet", "own")
        campaigns = {
            how: Campaign(
                problem, 1, machine.on_cpu, 1, submissions, executors[how], place / f"beside-{how}"
            )
            for how in HOW
        }
        tokens = {how: create(one)[0][1] for how, one in campaigns.items()}
        urls = {how: serve(stack, one, until, guard) for how, one in campaigns.items()}
        counted = {how: wait_ready(one.folder, until) for how, one in campaigns.items()}
        chosen = entries(problem, machine.on_cpu, submissions)
        left = anyio.run(_hand_in, urls, tokens, counted, chosen, until)
    seconds = {how: times(one.folder) for how, one in campaigns.items()}
    return {
        "problem": problem,
        "asked": submissions,
        "left for want of time": left,
        "candidates": [entry.summary for entry in chosen],
        **seconds,
        "compared": compared(seconds["local"], seconds["ray"]),
        "verify": {how: verify(one.folder) for how, one in campaigns.items()},
    }


async def _hand_in(
    urls: dict[str, str],
    tokens: dict[str, str],
    counted: dict[str, Counted],
    chosen: list[Entry],
    until: float,
) -> int:
    """Hand in candidates one after the other, each to both; return how many had no time."""
    async with AsyncExitStack() as stack:
        tools = {
            how: await stack.enter_async_context(over_http(urls[how], tokens[how])) for how in HOW
        }
        for one in tools.values():
            await one.call("get_brief")
        took = _FIRST_GUESS
        for number, entry in enumerate(chosen):
            begin = time.monotonic()
            if begin + took > until:
                return len(chosen) - number
            for how in HOW if number % 2 == 0 else reversed(HOW):
                await _submit(tools[how], entry, number)
                await _quiet(counted[how])
            took = max(time.monotonic() - begin, took if number else 0.0)
    return 0


async def _submit(tools: Tools, entry: Entry, number: int) -> None:
    arguments = {"language": entry.language, "binding": entry.binding}
    view = await tools.call(
        "submit_candidate",
        source=entry.source,
        filename=f"k{number:03d}{entry.suffix}",
        summary=entry.summary,
        destination_passing=entry.fills,
        request_id=f"beside-{number}",
        **{key: value for key, value in arguments.items() if value},
    )
    await tools.judged(view)


async def _quiet(counted: Counted) -> None:
    """Wait until a new record's own noise is measured: the other campaign would wait for the device."""
    with anyio.move_on_after(_SPREAD_SECONDS):
        while (kinds := counted.look())["spread_updated"] < kinds["KEEP"]:
            await anyio.sleep(_LOOK)


def times(folder: Path) -> list[Row]:
    """Return, for each submission in its order, its verdict, its pairs and its seconds from submitted to settled."""
    begun: dict[str, float] = {}
    pairs: Counter[str] = Counter()
    found = []
    for event in read_events(folder):
        at = datetime.fromisoformat(event.at).timestamp()
        if isinstance(event.body, Submitted):
            begun[event.submission] = at
        elif isinstance(event.body, Screened | Confirmed):
            pairs[event.submission] += len(event.body.result.pairs)
        elif isinstance(event.body, Settled):
            told = {"verdict": event.body.verdict, "reason": event.body.reason}
            seconds = round(at - begun[event.submission], 3)
            found.append({"seconds": seconds, "pairs": pairs[event.submission], **told})
    return found


def compared(local: list[Row], far: list[Row]) -> Row:
    """Compare times to verdict of candidates that both have judged, and alike, and of all of them."""
    both = list(zip(local, far, strict=False))
    alike = [(a, b) for a, b in both if a["reason"] == b["reason"]]
    ratios = [b["seconds"] / a["seconds"] for a, b in alike if a["seconds"]]
    if not ratios:
        return {"candidates": len(both), "judged alike": 0}
    sums = [sum(pair[side]["seconds"] for pair in alike) for side in (0, 1)]
    # How many pairs a decision takes is chance, and most of a verdict's time.
    even = [(a["seconds"], b["seconds"]) for a, b in both if a["pairs"] == b["pairs"]]
    local_sum, far_sum = (sum(pair[side] for pair in even) for side in (0, 1))
    return {
        "candidates": len(both),
        "judged alike": len(alike),
        "local, median s": round(median(a["seconds"] for a, _ in alike), 3),
        "Ray, median s": round(median(b["seconds"] for _, b in alike), 3),
        "Ray / local, all seconds": round(sums[1] / sums[0], 4),
        "Ray / local, median of candidates": round(median(ratios), 4),
        "decided by as many pairs": len(even),
        "Ray / local of these, all seconds": round(far_sum / local_sum, 4) if even else None,
        "Ray adds, median ms": round(
            1e3 * median(b["seconds"] - a["seconds"] for a, b in alike), 1
        ),
    }
