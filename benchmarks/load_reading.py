"""Readers under load: our tools beside a bare SDK server, in turn, so that what holds both up is in both."""

import argparse
import gc
import json
import os
import subprocess
import sys
from contextlib import AsyncExitStack, ExitStack
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Final

import anyio

from benchmarks.load_agents import Calls, Taken, agents_of, quantile_row, work
from benchmarks.load_campaign import create, fill
from kernelarc_mcp.cli.children import start_server

LIMIT_MS: Final = 150.0
RATIO: Final = 1.5
WARM_SECONDS: Final = 5.0
OURS: Final = "all of them"
ECHO: Final = "echo (bare SDK server)"
RECITED: Final = "our answers said again by it"


@dataclass(frozen=True)
class Load:
    """What the agents of one load call, and where."""

    url: str
    tokens: list[str]
    calls: list[Calls]
    """Of each agent."""


def reading(
    root: Path, guard: str, options: argparse.Namespace, ends: ExitStack
) -> tuple[str, list[str]]:
    """Measure the reading tools beside the echo."""
    tokens = create(root / "read", options.readers, options.readers * 20)
    tickets = fill(root / "read", 4, guard)
    child, url = start_server(root / "read", guard, root / "read.log")
    ends.callback(child.stop)
    answers = anyio.run(_one_of_each, url, next(iter(tokens.values())), tickets[0])
    (root / "answers.json").write_text(json.dumps(answers), encoding="utf-8")
    bare = ends.enter_context(echo_server(root / "answers.json"))
    nobody = [""] * len(tokens)
    recited: Calls = [("recite", {"name": name}) for name in answers]
    loads = {
        OURS: Load(url, list(tokens.values()), [_reads(ticket) for ticket in tickets]),
        ECHO: Load(bare, nobody, [[("echo", {"text": "hello"})]] * len(tokens)),
        RECITED: Load(bare, nobody, [recited] * len(tokens)),
    }
    slices, stolen = anyio.run(_in_turn, options, loads)
    by_tool = {name: _together(slices_of) for name, slices_of in slices.items()}
    rows = [quantile_row(tool, taken) for tool, taken in sorted(by_tool[OURS].items())]
    whole = {name: quantile_row(name, _all_of(by_tool[name])) for name in loads}
    lines = ["| tool | calls | p50 ms | p99 ms | p99 over the echo's |", "|---|---|---|---|---|"]
    for name, count, middle, high in [whole[ECHO], whole[RECITED], *rows, whole[OURS]]:
        ratio = high / whole[ECHO][3]
        lines.append(f"| {name} | {count} | {middle:.1f} | {high:.1f} | {ratio:.2f} |")
    highs = {
        name: [quantile_row("", _all_of(taken))[3] for taken in slices_of]
        for name, slices_of in slices.items()
    }
    told = ", ".join(
        " / ".join(f"{one:.0f}" for one in turn) for turn in zip(*highs.values(), strict=True)
    )
    lines += ["", f"p99 of neighbouring slices, {' / '.join(highs)}, ms: {told}."]
    ratios = {
        name: median(a / b for a, b in zip(highs[OURS], highs[name], strict=True))
        for name in (ECHO, RECITED)
    }
    lines += [
        f"Median of our slices' over the {name}'s: {ratio:.2f}." for name, ratio in ratios.items()
    ]
    told = ", ".join(" / ".join(f"{one:.1f}" for one in turn) for turn in stolen)
    lines.append(
        f"Of the cores' time others on the host took, in the same slices, percent: {told}."
    )
    faults = [f"{name}: p99 {high:.1f} ms" for name, _, _, high in rows if high > LIMIT_MS]
    if ratios[ECHO] > RATIO:
        faults.append(f"p99 is {ratios[ECHO]:.2f} times the echo's")
    return "\n".join(lines) + "\n", faults


def _reads(ticket: str) -> Calls:
    return [
        ("get_brief", {}),
        ("get_strategy_lens", {}),
        ("read_memory", {}),
        ("view_leaderboard", {}),
        ("view_snapshot", {"submission": ticket}),
        ("wait_submission", {"ticket": ticket, "wait_seconds": 0}),
    ]


def _together(slices: list[Taken]) -> Taken:
    tools = {tool for taken in slices for tool in taken}
    return {tool: [one for taken in slices for one in taken.get(tool, [])] for tool in tools}


def _all_of(taken: Taken) -> list[float]:
    return [one for times in taken.values() for one in times]


async def _one_of_each(url: str, token: str, ticket: str) -> dict[str, object]:
    """Return an answer of every reading tool, by its name."""
    async with agents_of(url, [token]) as (agent,):
        return {tool: await agent.call(tool, given) for tool, given in _reads(ticket)}


async def _in_turn(
    options: argparse.Namespace, loads: dict[str, Load]
) -> tuple[dict[str, list[Taken]], list[list[float]]]:
    """Put the loads on in turn; return what the calls of each slice took, by load.

    Beside it, by round and load, which share of the cores (percent) the host gave to others meanwhile.
    """
    slices: dict[str, list[Taken]] = {name: [] for name in loads}
    stolen: list[list[float]] = []
    async with AsyncExitStack() as ends:
        agents = {
            name: await ends.enter_async_context(agents_of(load.url, load.tokens))
            for name, load in loads.items()
        }
        for name, load in loads.items():
            await work(agents[name], load.calls, WARM_SECONDS, 0)
        gc.freeze()
        for number in range(options.slices):
            # What all are held up by for a while stays in one round, and no load is always first.
            names = list(loads)[number % len(loads) :] + list(loads)[: number % len(loads)]
            taken_from_us: dict[str, float] = {}
            for name in names:
                before = _stolen_seconds()
                calls, seed = loads[name].calls, options.seed + number
                taken = await work(agents[name], calls, options.slice_seconds, seed)
                slices[name].append(taken)
                cores = options.slice_seconds * (os.cpu_count() or 1)
                taken_from_us[name] = 100 * (_stolen_seconds() - before) / cores
            stolen.append([taken_from_us[name] for name in loads])
    return slices, stolen


def _stolen_seconds() -> float:
    """Return how long the cores of this virtual machine were kept waiting by its host, in all."""
    fields = Path("/proc/stat").read_text(encoding="ascii").splitlines()[0].split()
    return int(fields[8]) / os.sysconf("SC_CLK_TCK")


class echo_server:
    """The bare SDK server as a process, by its URL."""

    def __init__(self, answers: Path) -> None:
        self._command = [sys.executable, "-m", "benchmarks.load_echo", str(answers)]

    def __enter__(self) -> str:
        self._process = subprocess.Popen(self._command, stdout=subprocess.PIPE, text=True)
        assert self._process.stdout is not None
        return self._process.stdout.readline().strip()

    def __exit__(self, *_: object) -> None:
        self._process.terminate()
        self._process.communicate()
