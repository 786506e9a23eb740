"""What measurements of a fleet came to: raw results of one or more calls, as a document and its numbers.

    python -m benchmarks.fleet_gpus_report FOLDER... --out docs/measurements [--submissions 10000]

Writes fleet_gpus.md, fleet_gpus.json and, beside them, the bank of pairs and the campaigns. A part that was not measured, and what had no time, is said there.
"""

import argparse
import json
import shutil
import tarfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any, Final

import numpy as np

from benchmarks.fleet_interference import STATES, Measured
from benchmarks.fleet_tables import (
    agreeing,
    agreement_table,
    calibrations_table,
    kinds_table,
    runs_table,
    scaling_table,
    units_table,
)
from benchmarks.gpu_aa_report import (
    LEAST_PAIRS,
    as_campaigns_begin,
    false_keeps,
    markdown,
    noise_row,
    upper_bound,
)
from benchmarks.gpu_bank import Bank
from benchmarks.noise import Random
from benchmarks.submissions import submit
from kernelarc_guard.devices import default_parameters

Row = dict[str, Any]
SEED: Final = 11
FALSE_KEEPS: Final = "False KEEPs, neighbours idle and busy"
NOT_MEASURED: Final = "**Not measured.**"


def read_rows(folders: Sequence[Path], name: str) -> list[Row]:
    """Return the rows of a part from all calls, in their order; a part with one result has one row."""
    rows: list[Row] = []
    for folder in folders:
        path = folder / f"{name}.json"
        if path.exists():
            told = json.loads(path.read_text(encoding="utf-8"))
            rows += told if isinstance(told, list) else [told]
            continue
        # A call that was cut off leaves what each device had said.
        for own in sorted((folder / name).glob(f"{name}-*.jsonl")):
            rows += [json.loads(line) for line in own.read_text(encoding="utf-8").splitlines()]
    return rows


def machine_of(folder: Path) -> str:
    """Return what a call said of its machine: its GPUs and how many cores were used; empty: nothing."""
    cards, cores = folder / "card.txt", folder / "cores.txt"
    if not cards.exists():
        return ""
    lines = cards.read_text(encoding="utf-8").strip().splitlines()[1:]
    fields = [[field.strip() for field in line.split(",")] for line in lines if "," in line]
    names = [f"{row[0]}, driver {row[1]}, {row[2]}" for row in fields if len(row) > 2]
    used = cores.read_text(encoding="utf-8").strip() if cores.exists() else "?"
    return f"{len(names)} GPUs ({'; '.join(names)}), {used} cores" if names else ""


def read_bank(folders: Sequence[Path]) -> list[Measured]:
    """Return the nurseries of all calls."""
    return [
        Measured.model_validate_json(line)
        for folder in folders
        for path in sorted(folder.glob("interference.jsonl"))
        for line in path.read_text(encoding="utf-8").splitlines()
    ]


def banks(bank: Sequence[Measured]) -> dict[tuple[str, str], Bank]:
    """Return a bank for each kernel and state of the neighbours."""
    keys = [
        (name, state)
        for name in dict.fromkeys(one.unit.subject for one in bank)
        for state in STATES
    ]
    found = {
        key: Bank(tuple(one.unit for one in bank if (one.unit.subject, one.state) == key))
        for key in keys
    }
    return {key: one for key, one in found.items() if one.units}


def noise_table(found: dict[tuple[str, str], Bank]) -> list[Row]:
    """Return noise and what could be proven beside idle and busy neighbours."""
    return [
        {"kernel": name, "neighbours": state}
        | {key: value for key, value in noise_row(name, one).items() if key != "kernel"}
        for (name, state), one in found.items()
    ]


def false_table(found: dict[tuple[str, str], Bank], rng: Random, count: int) -> list[Row]:
    """Return virtual submissions of each bank, and of campaigns that begin idle and go on busy."""
    rows: list[Row] = []
    for (name, state), one in found.items():
        for row in false_keeps({(name, 0.0): one}, rng, count):
            rows.append({"kernel": name, "neighbours": state} | row)
    for name in dict.fromkeys(name for name, _ in found):
        idle, busy = (found.get((name, state)) for state in STATES)
        if idle and busy and min(len(idle.values), len(busy.values)) >= LEAST_PAIRS:
            held = as_campaigns_begin(idle, rng, count)
            got = submit(busy, rng, np.zeros(count), held, parameters=default_parameters("cuda:0"))
            kept = int(got.keep.sum())
            rows.append(
                {
                    "kernel": name,
                    "neighbours": "calibrated idle, judged busy",
                    "drawn": "as measured",
                    "of pairs": len(busy.values),
                    "virtual submissions": count,
                    "KEEP": kept,
                    "upper 95 % bound %": upper_bound(kept, count),
                }
            )
    return rows


def state_table(bank: Sequence[Measured]) -> list[Row]:
    """Return what the measured device and its neighbours did, on average over nurseries."""
    rows = []
    for name in dict.fromkeys(one.unit.subject for one in bank):
        for state in STATES:
            own = [one for one in bank if (one.unit.subject, one.state) == (name, state)]
            if own:
                rows.append(
                    {
                        "kernel": name,
                        "neighbours": state,
                        "nurseries": len(own),
                        "multiprocessors MHz": _mean(one.sm_mhz for one in own),
                        "memory MHz": _mean(one.memory_mhz for one in own),
                        "W": _mean(one.power_w for one in own),
                        "degrees C": _mean(one.temperature_c for one in own),
                        **_load(own),
                        "observations": len([line for one in own for line in one.observations]),
                    }
                )
    return rows


def _load(own: Sequence[Measured]) -> Row:
    """Return what worked beside it, all GPUs and processes together."""
    kinds = {"products": "BF16 products a second", "PCIe bytes": "GB/s over PCIe"}
    kinds |= {"copied bytes": "GB/s in host memory", "compiled": "compilations a second"}
    found: Row = {}
    for kind, title in kinds.items():
        scale = 1e-9 if "bytes" in kind else 1.0
        sums = [
            scale * sum(rate for name, rate in one.load.items() if name.endswith(kind))
            for one in own
        ]
        found[title] = round(fmean(sums), 2)
    return found


def _mean(values: Iterable[float | None]) -> float | str:
    told = [value for value in values if value is not None]
    return round(fmean(told), 1) if told else ""


def beside_table(found: Sequence[Row]) -> list[Row]:
    """Return time to verdict with a local guard and through Ray."""
    return [
        {"problem": one["problem"], **one["compared"], "no time for": one["left for want of time"]}
        | {"verify": "clean" if not any(one["verify"].values()) else str(one["verify"])}
        for one in found
    ]


def document(
    runs: Sequence[Row],
    judged: Sequence[Row],
    bank: Sequence[Measured],
    left: Sequence[str],
    besides: Sequence[Row],
    count: int,
) -> tuple[str, dict[str, list[Row]]]:
    """Return the text, and the tables by their titles; without virtual submissions that table is left out."""
    rng = np.random.default_rng(SEED)
    found = banks(bank)
    between, alike = agreeing(judged, between=True)
    within, same = agreeing(judged, between=False)
    tables = {
        "Throughput": runs_table(runs),
        "Against linear": scaling_table(runs),
        "What each GPU did, in seconds": units_table(runs),
        "What GPUs were asked for": kinds_table(runs),
        "Verdicts of identical candidates": agreement_table(judged),
        "Each GPU's own calibration with that record": calibrations_table(judged),
        "Noise and resolvable gain, neighbours idle and busy": noise_table(found),
        FALSE_KEEPS: false_table(found, rng, count) if count else [],
        "What the neighbours did": state_table(bank),
        "Time to verdict: local guard and Ray": beside_table(besides),
    }
    if not count:
        del tables[FALSE_KEEPS]
    notes = {
        "Against linear": "*Of linear* is about *each GPU held* over *a verdict's device seconds*: what of it is "
        "waiting, and what is other or costlier work. A GPU that joins imports torch and opens the problem for its first answer, which the calibration has done for one of them: the second "
        "factor begins when every GPU has given an answer, and flatters a little: the others are in the middle of a judgement then.",
        "Verdicts of identical candidates": f"Pairs of judgements of one candidate with the same verdict: {alike} of "
        f"{between} on two GPUs, {same} of {within} on one GPU. Intervals are 95 %, over the pairs of all rounds.",
        FALSE_KEEPS: "Bounds are exact (Clopper-Pearson), one-sided 95 %; whole pairs are "
        f"drawn with replacement, from {LEAST_PAIRS} pairs on.",
    }
    lines = ["# A fleet on the GPUs of one host", ""]
    for title, rows in tables.items():
        lines += [f"## {title}", ""]
        if rows and title in notes:
            lines += [notes[title], ""]
        lines += [markdown(rows) if rows else NOT_MEASURED, ""]
    missing = [
        f"{run['problem'] or 'all'}, {run['devices']} GPUs: {run['failed']}"
        for run in runs
        if "failed" in run
    ]
    for row in judged:
        why = row.get("left") or row.get("failed")
        if why:
            missing.append(f"agreement, GPU {row['device']}, {row.get('kernel', '')}: {why}")
    for run in runs:
        for agent, line in run.get("agents that failed", {}).items():
            missing.append(f"{run['problem']}, {run['devices']} GPUs: {agent} ended: {line}")
    missing += left
    missing += [f"{title}: not measured" for title, rows in tables.items() if not rows]
    lines += ["## What was not reached", ""]
    lines += [f"* {line}" for line in missing] or ["Nothing: all that was planned was measured."]
    return "\n".join(lines) + "\n", tables


def main() -> None:
    """Write the document."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("folders", type=Path, nargs="+", help="--out of the calls")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument(
        "--submissions", type=int, default=10_000, help="virtual ones of each bank; 0: none"
    )
    asked = parser.parse_args()
    left = [line for row in read_rows(asked.folders, "interference") for line in row["left"]]
    raw = {name: read_rows(asked.folders, name) for name in ("throughput", "agreement", "beside")}
    text, tables = document(
        raw["throughput"],
        raw["agreement"],
        read_bank(asked.folders),
        left,
        raw["beside"],
        asked.submissions,
    )
    machines = [told for folder in asked.folders if (told := machine_of(folder))]
    text = (
        text.replace("\n\n", f"\n\n{'; '.join(dict.fromkeys(machines))}.\n\n", 1)
        if machines
        else text
    )
    asked.out.mkdir(parents=True, exist_ok=True)
    (asked.out / "fleet_gpus.md").write_text(text, encoding="utf-8")
    numbers = json.dumps({"tables": tables, "raw": raw}, indent=1)
    (asked.out / "fleet_gpus.json").write_text(numbers + "\n", encoding="utf-8")
    for number, path in enumerate(
        path for folder in asked.folders for path in sorted(folder.glob("campaigns-*.tar.gz"))
    ):
        shutil.copyfile(path, asked.out / f"fleet_gpus_{number}.tar.gz")
    with tarfile.open(asked.out / "fleet_gpus_bank.tar.gz", "w:gz") as archive:
        for number, folder in enumerate(asked.folders):
            if (folder / "interference.jsonl").exists():
                archive.add(folder / "interference.jsonl", f"interference-{number}.jsonl")
    print(text)


if __name__ == "__main__":
    main()
