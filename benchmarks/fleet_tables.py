"""Tables of what a fleet of one host was measured to do: throughput, scaling, agreement. Pure."""

import math
from collections import Counter
from collections.abc import Sequence
from itertools import combinations, product
from typing import Any, Final

from benchmarks.fleet_account import MEASURING, PARTS, scaling
from kernelarc_guard.ratios import ratio_of

Row = dict[str, Any]
GOAL: Final = 0.9


def runs_table(runs: Sequence[Row]) -> list[Row]:
    """Return a row for each campaign that was run."""
    found = []
    for run in runs:
        row: Row = {"problem": run["problem"], "GPUs": run["devices"]}
        if "failed" in run:
            found.append(row | {"verify": run["failed"]})
            continue
        waits = run.get("queue wait") or {}
        found.append(
            row
            | {
                "agents": run["agents"],
                "verdicts": f"{run['verdicts']} of {run['asked']}",
                "seconds": run.get("seconds", ""),
                "verdicts an hour": run.get("verdicts an hour", ""),
                "GPU held": _percent(run.get("share held")),
                "GPU measuring": _percent(run.get("share measuring")),
                "wait in the queue, median and largest s": f"{waits['median']}, {waits['largest']}"
                if waits
                else "",
                "builds a second": run.get("builds a second", ""),
                "Triton kernels found compiled": _found(run, "Triton"),
                "builds found made": _found(run, "native"),
                "ready after s": run["ready after"],
                "verify": "clean" if not run["verify"] else "; ".join(run["verify"]),
            }
        )
    return found


def scaling_table(runs: Sequence[Row]) -> list[Row]:
    """Compare each campaign with that of the same problem on the fewest devices."""
    found = []
    judged = [run for run in runs if run.get("verdicts")]
    for name in dict.fromkeys(run["problem"] for run in judged):
        own = sorted(
            (r for r in judged if r["problem"] == name), key=lambda one: int(one["devices"])
        )
        for many in own[1:]:
            base = own[0]
            got = scaling(base, many, many["devices"], base["devices"])
            if "factor" not in got:
                continue
            warm = got["warm"] or {}
            found.append(
                {
                    "problem": name,
                    "GPUs": f"{base['devices']} to {many['devices']}",
                    "over so many verdicts": got["verdicts"],
                    "seconds": f"{got['seconds'][0]} and {got['seconds'][1]}",
                    "of linear": got["factor"],
                    f"goal {GOAL}": "met" if got["factor"] >= GOAL else "**not met**",
                    "of linear, once every GPU has judged one": warm.get("factor", ""),
                    "over so many then": warm.get("verdicts", ""),
                    "each GPU held": f"{got['held as long']} times as long",
                    "a verdict's device seconds": f"{got['cost of a verdict']} times",
                }
            )
    return found


def units_table(runs: Sequence[Row]) -> list[Row]:
    """Return what each device did with its time, in seconds."""
    found = []
    for run in runs:
        names = [name for name in run.get("units", {}) if name]
        for number, name in enumerate(names):
            unit = run["units"][name]
            found.append(
                {
                    "problem": run["problem"],
                    "GPUs": run["devices"],
                    "GPU": number,
                    "answers": unit["answers"],
                    **{part: unit[part] for part in PARTS},
                    "idle": unit["idle"],
                }
            )
    return found


def kinds_table(runs: Sequence[Row]) -> list[Row]:
    """Return what devices were asked for, how often, and the seconds they were held for it."""
    return [
        {
            "problem": run["problem"],
            "GPUs": run["devices"],
            "asked for": kind,
            "times": row["count"],
            "held s": row["held"],
            "of it measuring s": row[MEASURING],
        }
        for run in runs
        for kind, row in run.get("kinds", {}).items()
    ]


def agreement_table(rows: Sequence[Row]) -> list[Row]:
    """Return, for each kernel and case, what every device said and whether they agree."""
    found = []
    for (kernel, case), own in _by_case(rows).items():
        devices = sorted({row["device"] for row in own})
        line: Row = {
            "kernel": kernel,
            "candidate": case,
            "true gain %": "" if own[0]["true_gain"] is None else own[0]["true_gain"],
        }
        for device in devices:
            mine = [row for row in own if row["device"] == device]
            counted = Counter(f"{row['verdict']} {row['reason']}" for row in mine)
            line[f"GPU {device}"] = ", ".join(f"{n} {what}" for what, n in counted.most_common())
            line[f"ratio on GPU {device}"] = _ratio(mine)
        between, agree = agreeing(own, between=True)
        line["between GPUs"] = f"{agree} of {between} alike" if between else ""
        within, alike = agreeing(own, between=False)
        line["on one GPU"] = f"{alike} of {within} alike" if within else ""
        found.append(line)
    return found


def calibrations_table(rows: Sequence[Row]) -> list[Row]:
    """Return each device's own noise with the same record; verdicts are by the first one's."""
    return [
        {
            "kernel": row["kernel"],
            "GPU": row["device"],
            "sd of a pair %": round(row["sd"], 3),
            "could prove %": "" if row["resolution"] is None else round(row["resolution"], 3),
        }
        for row in rows
        if "sd" in row
    ]


def agreeing(rows: Sequence[Row], *, between: bool) -> tuple[int, int]:
    """Return how many pairs of judgements of one candidate there are, and how many have the same verdict.

    `between`: one on each of two devices; else both on one device, in different rounds.
    """
    pairs: list[tuple[Row, Row]] = []
    for own in _by_case(rows).values():
        by_device: dict[int, list[Row]] = {}
        for row in own:
            by_device.setdefault(row["device"], []).append(row)
        if between:
            for one, other in combinations(by_device.values(), 2):
                pairs += product(one, other)
        else:
            for mine in by_device.values():
                pairs += combinations(mine, 2)
    return len(pairs), sum(a["verdict"] == b["verdict"] for a, b in pairs)


def _by_case(rows: Sequence[Row]) -> dict[tuple[str, str], list[Row]]:
    found: dict[tuple[str, str], list[Row]] = {}
    for row in rows:
        if "verdict" in row:
            found.setdefault((row["kernel"], row["case"]), []).append(row)
    return found


def _ratio(rows: Sequence[Row]) -> str:
    """Return the ratio over the pairs of all rounds, with its interval where there are several."""
    values = [value for row in rows for value in row["values"]]
    if len(values) < 2:
        return f"{math.exp(values[0] / 100):.3f}" if values else ""
    found = ratio_of(values)
    return f"{found.ratio:.3f} ({found.lower:.3f} to {found.upper:.3f})"


def _found(run: Row, kind: str) -> str:
    """Return how many candidates found compiled what they would have compiled; rows of old calls do not say."""
    told = run.get("ahead") or {}
    return f"{told[f'{kind} found']} of {told[kind]}" if told else ""


def _percent(share: float | None) -> str:
    return "" if share is None else f"{100 * share:.1f} %"
