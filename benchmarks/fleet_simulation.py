"""A fleet of 8, 64 and 512 GPUs with four agents each, simulated: utilisation, queueing, fairness, and what saturates first.

    python -m benchmarks.fleet_simulation --rates docs/measurements/ledger_rate.json --out docs/measurements/fleet_simulation.json

Evaluations are drawn from the campaign recorded on an H200 (docs/measurements/h200_campaign_second.tar.gz), the times of the server's
process are those that `benchmarks.ledger_rate` measured, the model is `benchmarks.fleet_model`. Deterministic by `--seed`.
"""

import argparse
import json
import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median, quantiles
from typing import Any, Final

import numpy as np

from benchmarks import ledger_rate
from benchmarks.fleet_model import Costs, Draw, Fleet, Seen, deck, jain, simulate
from benchmarks.recorded_cases import Recorded, recorded

AGENTS_EACH: Final = 4
SCRIPTED: Final = "scripted, 1 s"
THINKING: Final[dict[str, Draw]] = {
    SCRIPTED: lambda chance: chance.uniform(0.5, 1.5),
    "as a model, 60 to 180 s": lambda chance: chance.uniform(60.0, 180.0),
}
OVERHEAD: Final = 0.05
"""Of a request to another host and its answer: the most that is allowed as a median."""
_SATURATED: Final = 0.95
Rates = dict[str, list[dict[str, Any]]]


@dataclass(frozen=True)
class Scenario:
    """What one row is about."""

    gpus: int
    campaigns: int
    thinking: str
    keeps: float
    """KEEPs among submissions that were no older than the record."""
    server: bool
    """Whether the server's process takes its time; without it there are only agents and GPUs."""
    in_flight: int = 1
    before: bool = False
    """With waiting and derived tables as they were when the rates were measured."""


def main() -> int:
    """Simulate, and print a table."""
    options = arguments()
    rates: Rates = json.loads(options.rates.read_text())
    held = recorded()
    rows = []
    for place, scenario in enumerate(scenarios(options.gpus)):
        if options.rows and place not in options.rows:
            continue
        seconds, warm = _length(scenario)
        seen = run(scenario, held, rates, options.seed, seconds, warm)
        rows.append(row(scenario, seen))
        print(ledger_rate.markdown(rows[-1:]), flush=True)
        if options.out:
            options.out.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")
    return 0


def _length(scenario: Scenario) -> tuple[float, float]:
    """Return how many seconds are looked at, and how many are before them."""
    if scenario.thinking != SCRIPTED:
        return 600.0, 300.0
    return (600.0, 120.0) if scenario.gpus <= 64 else (240.0, 120.0)


def arguments() -> argparse.Namespace:
    """Return the command line's options."""
    parser = argparse.ArgumentParser(description="Simulate a fleet.")
    parser.add_argument("--gpus", type=int, nargs="+", default=[8, 64, 512])
    parser.add_argument("--rows", type=int, nargs="+", help="only these, from 0; all without it")
    parser.add_argument("--rates", type=Path, required=True, help="what ledger_rate wrote")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out", type=Path)
    return parser.parse_args()


def scenarios(sizes: list[int]) -> Iterator[Scenario]:
    """Yield the rows: the GPUs alone, then with the server, then what else may be."""
    for thinking in THINKING:
        for gpus in sizes:
            base = Scenario(gpus, 1, thinking, 0.001, server=False)
            yield base
            yield replace(base, server=True)
            yield replace(base, server=True, before=True)
            if thinking == SCRIPTED:
                yield replace(base, keeps=0.05)
            if thinking == SCRIPTED and gpus <= 64:
                yield replace(base, in_flight=8)
            if gpus > 8:
                yield replace(base, server=True, campaigns=gpus // 8)


def run(
    scenario: Scenario, held: Recorded, rates: Rates, seed: int, seconds: float, warm: float
) -> list[Seen]:
    """Simulate every campaign of a scenario."""
    gpus = scenario.gpus // scenario.campaigns
    agents = AGENTS_EACH * gpus
    fleet = Fleet(
        lanes=gpus,
        agents=agents,
        think=THINKING[scenario.thinking],
        draw=deck(held.cases, scenario.keeps),
        costs=costs_of(rates, agents, scenario.before) if scenario.server else Costs(),
        overhead=OVERHEAD,
        spread=sum(held.spreads) / len(held.spreads),
        canary=sum(held.canaries) / len(held.canaries),
        canaries=len(held.canaries) / held.judged,
        in_flight=scenario.in_flight,
    )
    return [
        simulate(fleet, seed * 1000 + number, seconds, warm) for number in range(scenario.campaigns)
    ]


def costs_of(rates: Rates, agents: int, before: bool) -> Costs:
    """Return what a campaign with so many agents costs its server's process, from measured medians.

    Since a transaction no longer writes a row for every agent it costs what it did with the fewest.
    """
    fewest = min(one["agents"] for one in rates["agents"])

    def median_of(part: str, column: str, name: str, count: int) -> float:
        rows = [one for one in rates[part] if one[column] == name]
        known = [one["agents"] for one in rows]
        return float(np.interp(count, known, [one["median ms"] for one in rows])) / 1000

    def transaction(name: str) -> float:
        return median_of("agents", "transaction", name, agents if before else fewest)

    def wait(name: str) -> float:
        return median_of("waiting", "what", name, agents)

    waiting = [one for one in rates["waiting"] if one["what"] == ledger_rate.CHOOSE]
    queued = float(
        np.interp(agents, [one["agents"] for one in waiting], [one["queued"] for one in waiting])
    )
    (served,) = rates["server"]
    written = min(
        (one for one in rates["agents"] if one["transaction"] == ledger_rate.CPU),
        key=lambda one: one["agents"],
    )
    beside = max(0.0, served["server's CPU ms a verdict"] - written["median ms"])
    return Costs(
        submit=transaction("submit"),
        claim=transaction("claim"),
        # Looked at before the transaction, in it, and by the replay of its row.
        choose=3 * wait(ledger_rate.CHOOSE) / queued,
        screened=transaction("screened and settled"),
        staked=transaction("staked"),
        confirmed=transaction("confirmed and settled"),
        sign=transaction("sign of life"),
        look=wait(ledger_rate.LOOK),
        # Before, everybody worked the whole line out anew.
        view=wait(ledger_rate.FIRST_VIEW if before else ledger_rate.NEXT_VIEW),
        every_row=before,
        call=beside / 2 / 1000,
    )


def row(scenario: Scenario, all_seen: list[Seen]) -> dict[str, Any]:
    """Return one line of the table, of all campaigns together."""
    seconds = all_seen[0].seconds
    lanes = scenario.gpus * seconds
    servers = scenario.campaigns * seconds

    def total(name: str) -> float:
        return float(sum(getattr(seen, name) for seen in all_seen))

    waits = [wait for seen in all_seen for wait in seen.waits]
    answers = [answer for seen in all_seen for answer in seen.answers]
    server = {
        use: sum(seen.server[use] for seen in all_seen) / servers
        for use in ("transactions", "signs of life", "calls", "waiting")
    }
    agents = AGENTS_EACH * scenario.gpus
    shares = [count for seen in all_seen for count in seen.by_agent.values()]
    shares += [0] * (agents - len(shares))
    busy = total("busy") / lanes
    return {
        "GPUs": scenario.gpus,
        "campaigns": scenario.campaigns,
        "think": scenario.thinking,
        "KEEP %": 100 * scenario.keeps,
        "server": "measured" if scenario.server else "costs nothing",
        "also": _also(scenario),
        "verdicts/s": total("verdicts") / seconds,
        "GPU %": 100 * busy,
        "repeats %": 100 * total("wasted") / max(total("busy"), 1.0),
        "canaries %": 100 * total("canaries") / max(total("canaries_due"), 1.0),
        "queue s": median(waits) if waits else 0.0,
        "queue p99 s": quantiles(waits, n=100)[98] if len(waits) > 1 else 0.0,
        "verdict s": median(answers) if answers else 0.0,
        **{f"{use} %": 100 * part for use, part in server.items()},
        "Jain": jain(shares),
        "largest share": max(shares) * agents / max(sum(shares), 1),
        "saturated": _saturated(busy, server),
    }


def _also(scenario: Scenario) -> str:
    if scenario.before:
        return "before the repairs"
    return "one agent in ten has 8 queued" if scenario.in_flight > 1 else ""


def _saturated(busy: float, server: dict[str, float]) -> str:
    """Return which resource is used up; empty where none is."""
    if sum(server.values()) >= _SATURATED:
        return f"server ({max(server, key=lambda use: server[use])})"
    if busy >= _SATURATED:
        return "GPUs"
    return "none: agents think"


if __name__ == "__main__":
    sys.exit(main())
