"""What a bank of measured pairs says: noise, false KEEPs, power, and what real submissions became."""

import json
import statistics
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.gpu_bank import Bank, banks, read_units
from benchmarks.noise import Random
from benchmarks.submissions import Calibrations, Submitted, campaigns, submit
from kernelarc_guard.canary import exact_interval
from kernelarc_guard.core import Verdict
from kernelarc_guard.devices import default_parameters
from kernelarc_guard.terms import Floats, Ints
from kernelarc_mcp.recorded import read_recorded

SEED = 7
POOL = 200
"""Calibrations that virtual submissions share."""
CAMPAIGNS = 2_000
LEAST_PAIRS = 24
"""From fewer pairs nothing is drawn: their own mean would decide, not the rule."""
MOVED = (0.5, 1.0, 2.0, 5.0, 10.0, 20.0)
"""Percent that A/A pairs are moved by, to see what the rule finds."""
_PARAMETERS = default_parameters("cuda:0")
Row = dict[str, Any]


@dataclass(frozen=True)
class Tossed:
    """A bank whose pairs change their arms by a coin, as the guard's own coin might have."""

    bank: Bank

    def pairs(self, rng: Random, rows: int, count: int, blocks: int) -> Floats:
        """Draw pair values."""
        drawn: Floats = self.bank.pairs(rng, rows, count, blocks)
        return np.where(rng.integers(0, 2, drawn.shape) > 0, drawn, -drawn)

    def seconds(self, pairs: Ints, blocks: Ints) -> Floats:
        """Return what pairs cost."""
        return self.bank.seconds(pairs, blocks)


def write_report(folder: Path, out: Path, submissions: int) -> None:
    """Write `h200_aa.md` and `h200_aa.json` from a bank."""
    found = banks(read_units(folder))
    rng = np.random.default_rng(SEED)
    tables = {
        "noise": [noise_row(name, bank) for (name, planted), bank in found.items() if not planted],
        "false KEEPs": list(false_keeps(found, rng, submissions)),
        "delays planted inside the kernel": list(_planted(found)),
        "power, drawn from pairs with a planted delay": list(_power(found, rng, submissions)),
        "power, drawn from A/A pairs that were moved": list(_moved(found, rng, submissions)),
        "real submissions": list(_real(sorted(folder.glob("real-*.jsonl")))),
    }
    text = "\n\n".join(f"## {title}\n\n{markdown(rows)}" for title, rows in tables.items() if rows)
    print(text)
    out.mkdir(parents=True, exist_ok=True)
    (out / "h200_aa_tables.md").write_text(text + "\n", encoding="utf-8")
    numbers = json.dumps(tables, indent=1)
    (out / "h200_aa.json").write_text(numbers + "\n", encoding="utf-8")


def noise_row(name: str, bank: Bank) -> Row:
    """Return what a bank says of noise and of the smallest gain that could be proven."""
    values = bank.values
    calls = [call for u in bank.units for p in u.pairs for b in p.blocks for call in b.candidate[0]]
    known = bank.whole_calibration(_PARAMETERS)
    within = float(np.sqrt(bank.blocks.var(axis=1, ddof=1).mean()))
    return {
        "kernel": name,
        "median us": round(statistics.median(calls) / 1e3, 2),
        "pairs": len(values),
        "nurseries": len(bank.units),
        "seconds a pair": round(sum(u.seconds for u in bank.units) / len(values), 2),
        "sd of a pair %": round(float(values.std(ddof=1)), 3),
        "sd of a block %": round(within, 3),
        "mean %": f"{values.mean():+.3f} +- {values.std(ddof=1) / len(values) ** 0.5:.3f}",
        "shared bias at most %": _rounded(known.shared_bias),
        "biased": known.biased,
        "delta %": round(known.delta, 2),
        "could prove %": _rounded(known.resolution),
    }


def as_campaigns_begin(bank: Bank, rng: Random, count: int) -> Calibrations:
    """Return calibrations as campaigns begin with (8 pairs of one nursery), one for each row."""
    pool = list(bank.campaign_calibrations(rng, POOL, 8, _PARAMETERS))
    return Calibrations.of(pool).pick(rng.integers(0, POOL, count))


def _careful(bank: Bank, count: int) -> Calibrations:
    """Return the calibration of all nurseries for every row."""
    return Calibrations.of([bank.whole_calibration(_PARAMETERS)]).pick(np.zeros(count, np.int64))


def false_keeps(found: dict[tuple[str, float], Bank], rng: Random, count: int) -> Iterable[Row]:
    """Yield what becomes of virtual submissions that are no faster, from each bank without a delay."""
    for (name, planted), bank in found.items():
        if planted or len(bank.values) < LEAST_PAIRS:
            continue
        for how, source in (("as measured", bank), ("arms by a coin", Tossed(bank))):
            held = as_campaigns_begin(bank, rng, count)
            got = submit(source, rng, np.zeros(count), held, parameters=_PARAMETERS)
            many = campaigns(source, rng, CAMPAIGNS, as_campaigns_begin(bank, rng, CAMPAIGNS))
            yield {
                "kernel": name,
                "drawn": how,
                "of pairs": len(bank.values),
                "virtual submissions": count,
                "KEEP": int(got.keep.sum()),
                "upper 95 % bound %": upper_bound(int(got.keep.sum()), count),
                **_others(got),
                "campaigns of 100": many.count,
                "any KEEP": many.false,
                "its upper bound %": upper_bound(many.false, many.count),
            }


def _power(found: dict[tuple[str, float], Bank], rng: Random, count: int) -> Iterable[Row]:
    for (name, planted), bank in sorted(found.items()):
        same = found.get((name, 0.0))
        if not planted or same is None or len(bank.values) < LEAST_PAIRS:
            continue
        row: Row = {
            "kernel": name,
            "planted %": planted,
            "pairs": len(bank.values),
            "measured %": f"{bank.values.mean():+.3f} +- "
            f"{bank.values.std(ddof=1) / len(bank.values) ** 0.5:.3f}",
        }
        for how, held in (
            ("8 pairs", as_campaigns_begin(same, rng, count)),
            (f"{len(same.units)} nurseries", _careful(same, count)),
        ):
            got = submit(bank, rng, np.zeros(count), held, parameters=_PARAMETERS)
            kept = int(got.keep.sum())
            low, high = exact_interval(kept, count)
            row[f"KEEP %, calibrated with {how}"] = (
                f"{100 * kept / count:.1f} ({100 * low:.1f} to {100 * high:.1f})"
            )
            row[f"seconds ({how})"] = round(float(got.seconds.mean()), 1)
        yield row


def _planted(found: dict[tuple[str, float], Bank]) -> Iterable[Row]:
    for (name, planted), bank in sorted(found.items()):
        if planted:
            yield {
                "kernel": name,
                "planted %": planted,
                "pairs": len(bank.values),
                "measured %": f"{bank.values.mean():+.2f} +- "
                f"{bank.values.std(ddof=1) / len(bank.values) ** 0.5:.2f}",
            }


def _moved(found: dict[tuple[str, float], Bank], rng: Random, count: int) -> Iterable[Row]:
    """Yield what becomes of gains that were added to the values of measured pairs."""
    for (name, planted), bank in found.items():
        if planted or len(bank.values) < LEAST_PAIRS:
            continue
        for gain in MOVED:
            row: Row = {"kernel": name, "gain %": gain}
            for how, held in (
                ("8 pairs", as_campaigns_begin(bank, rng, count)),
                (f"{len(bank.units)} nurseries", _careful(bank, count)),
            ):
                gains = np.full(count, gain)
                got = submit(Tossed(bank), rng, gains, held, parameters=_PARAMETERS)
                kept = round(100 * float(got.keep.mean()), 1)
                row[f"KEEP %, calibrated with {how}"] = kept
                row[f"seconds ({how})"] = round(float(got.seconds.mean()), 1)
            yield row


def _others(got: Submitted) -> Row:
    slower = float((got.screened == Verdict.SLOWER).mean())
    accepted = float(got.accept.mean())
    return {"ACCEPT %": round(100 * accepted, 1), "slower %": round(100 * slower, 1)}


def _real(paths: Sequence[Path]) -> Iterable[Row]:
    verdicts: dict[str, Counter[str]] = {}
    for path in paths:
        for one in read_recorded(path):
            last = one.results[-1]
            verdicts.setdefault(one.problem, Counter())[f"{last.verdict} {last.reason}"] += 1
    total: Counter[str] = sum(verdicts.values(), Counter())
    for name, seen in [*verdicts.items(), *([("all", total)] if total else [])]:
        count, kept = seen.total(), seen["KEEP confirmed"]
        others = ", ".join(f"{n} {what}" for what, n in seen.most_common() if "KEEP" not in what)
        yield {
            "kernel": name,
            "submissions": count,
            "KEEP": kept,
            "upper 95 % bound %": upper_bound(kept, count),
            "others": others,
        }


def upper_bound(hits: int, count: int) -> float:
    """Return the exact one-sided upper 95 % bound of a rate, in percent."""
    return float(f"{100 * exact_interval(hits, count, error=0.1)[1]:.2g}")


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 3)


def markdown(rows: Sequence[Row]) -> str:
    """Return rows as a table, with every column that one of them has."""
    columns = list(dict.fromkeys(column for row in rows for column in row))
    lines = [f"| {' | '.join(columns)} |", f"|{'---|' * len(columns)}"]
    lines += [f"| {' | '.join(str(row.get(column, '')) for column in columns)} |" for row in rows]
    return "\n".join(lines)
