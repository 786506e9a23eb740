"""How often the rule keeps noise, how often it finds a gain, and what that costs: simulated.

Submissions with simulated noise go through the deciding core that the guard ships. The noise has
the variance components of three kernels measured on an H200, in ten families. Prints tables with
exact (Clopper-Pearson) one-sided 95 % bounds; everything is seeded.

    python benchmarks/false_keep.py --quick
    python benchmarks/false_keep.py --out docs/measurements/false_keep.json
"""

import argparse
import json
import sys
import time
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from scipy.special import betaincinv

from benchmarks import field_rules
from benchmarks.noise import (
    BOOTSTRAP,
    EVERY_FAMILY,
    KERNELS,
    RMSNORM_11US,
    RMSNORM_26US,
    Noise,
    Random,
)
from benchmarks.submissions import (
    PARAMETERS,
    Calibrations,
    calibrate,
    campaigns,
    pool,
    submit,
)
from kernelarc_guard.core import Verdict
from kernelarc_guard.decide import Calibration
from kernelarc_guard.terms import Floats

GAINS = (-20.0, -5.0, -2.0, -1.0, 0.0, 0.3, 0.5, 0.7, 1.0, 1.5, 2.0, 3.0, 5.0)
Row = dict[str, Any]


class Study:
    """The tables, one method each; sizes are those of a full run divided by `share`."""

    def __init__(self, seed: int, share: int) -> None:
        """Fix the seed of everything drawn."""
        self._seed = seed
        self._seeds = np.random.SeedSequence(seed)
        self._share = share
        # Calibrations drawn per noise: each campaign, or each lone submission, has one of them.
        self._pool_size = 200 if share == 1 else 40
        self._pools: dict[Noise, Calibrations] = {}
        self.tables: dict[str, list[Row]] = {}

    def run(self, only: Sequence[str]) -> None:
        """Make the tables and print each when it is done."""
        for name in only:
            begin = time.process_time()
            # A table has the same numbers alone and among others.
            self._seeds = np.random.SeedSequence([self._seed, zlib.crc32(name.encode())])
            rows = getattr(self, name)()
            self.tables[name] = rows
            print(f"\n## {getattr(type(self), name).__doc__}\n\n{markdown(rows)}", flush=True)
            print(f"{name}: {time.process_time() - begin:.0f} s of CPU", file=sys.stderr)

    def no_gain(self) -> list[Row]:
        """Campaigns of 100 candidates that are no faster: any false KEEP (required: at most 1 %)"""
        return self._campaigns(10_000, gain=0.0, bypass=False)

    def at_delta(self) -> list[Row]:
        """The worst case: all 100 candidates exactly at delta, the screen bypassed: any KEEP"""
        return self._campaigns(10_000, gain=PARAMETERS.delta, bypass=True)

    def _campaigns(self, full: int, *, gain: float, bypass: bool) -> list[Row]:
        count, rows = full // self._share, []
        for family in EVERY_FAMILY:
            row: Row = {"noise": family}
            runs = []
            for kernel in KERNELS:
                noise, rng = Noise(kernel, family), self._random()
                held = self._held(noise, rng, count)
                runs.append(campaigns(noise, rng, count, held, gain=gain, bypass=bypass))
                row[kernel.name] = runs[-1].false
            false, of = sum(run.false for run in runs), count * len(KERNELS)
            keeps, confirmed = (sum(getattr(r, f) for r in runs) for f in ("keeps", "confirmed"))
            row |= {"campaigns": of, "any KEEP": false, "rate %": percent(false / of)}
            row["upper bound %"] = percent(upper(false, of))
            row["confirmations"] = round(confirmed / of, 1)
            row["KEEP per confirmation"] = f"{keeps / max(confirmed, 1):.1e}"
            row["budget left"] = round(sum(run.wealth for run in runs) / len(runs), 3)
            rows.append(row)
        return rows

    def field(self) -> list[Row]:
        """The field's rules (GEMM / 26 us / 11 us): 100 candidates no faster, in % any false KEEP"""
        count, rows = 10_000 // self._share, []
        for family in EVERY_FAMILY:
            row: Row = {"noise": family}
            for name, rule in field_rules.RULES.items():
                for kernel in KERNELS:
                    noise = Noise(kernel, family)
                    found, _ = field_rules.kept(rule, noise, self._random(), count, 0.0)
                    row.setdefault(name, []).append(percent(found / count))
                row[name] = " / ".join(row[name])
            rows.append(row)
        return rows

    def field_each(self) -> list[Row]:
        """The same rules by submission: in % kept at no gain, and at a gain of 1 %"""
        count, rows = 5_000 // self._share, []
        for family in ("normal", BOOTSTRAP):
            for name, rule in field_rules.RULES.items():
                row: Row = {"noise": family, "rule": name}
                for kernel in KERNELS:
                    noise, rng = Noise(kernel, family), self._random()
                    _, all_kept = field_rules.kept(rule, noise, rng, count // 10, 0.0)
                    found = field_rules.first_kept(rule, noise, rng, count, 1.0)
                    each = all_kept / (count // 10 * field_rules.SUBMISSIONS)
                    row[kernel.name] = f"{percent(each)} / {percent(found / count)}"
                rows.append(row)
        return rows

    def power(self) -> list[Row]:
        """One submission, the first of its campaign: what becomes of a true gain"""
        rows = []
        for family in ("normal", BOOTSTRAP):
            for kernel in KERNELS:
                rows += [self._outcome(Noise(kernel, family), gain) for gain in GAINS]
        return rows

    def power_elsewhere(self) -> list[Row]:
        """Probability of KEEP under each noise, calibrated under it (doubled noise: under half of it)"""
        rows = []
        for family in EVERY_FAMILY:
            row: Row = {"noise": family}
            for kernel in KERNELS:
                for gain in (0.5, 1.0, 2.0):
                    found = self._outcome(Noise(kernel, family), gain)
                    row[f"{kernel.name} {gain:+g} %"] = f"{found['KEEP']:.3f}"
            rows.append(row)
        return rows

    def _outcome(self, noise: Noise, gain: float) -> Row:
        count, rng = 10_000 // self._share, self._random()
        got = submit(noise, rng, np.full(count, gain), self._held(noise, rng, count))
        kept = int(got.keep.sum())
        confirmed = got.confirm_pairs[got.confirm_pairs > 0]
        return {
            "noise": noise.family,
            "kernel": noise.kernel.name,
            "gain %": gain,
            "KEEP": kept / count,
            "lower bound": round(lower(kept, count), 4),
            "ACCEPT": round(float(got.accept.mean()), 4),
            "slower": round(float((got.screened == Verdict.SLOWER).mean()), 4),
            "screen pairs": round(float(got.screen_pairs.mean()), 2),
            "confirm pairs": round(float(confirmed.mean()), 1) if len(confirmed) else 0.0,
            "seconds": round(float(got.seconds.mean()), 2),
            "bias of KEEPs %": _bias(got.estimate, gain) if kept else None,
            "goal %": round(float(np.median(got.goal)), 2),
        }

    def longer(self) -> list[Row]:
        """What more pairs in a confirmation would find, and what they would cost: KEEP (seconds)"""
        count, rows = 10_000 // self._share, []
        for n_max in (PARAMETERS.n_max, 40, 48, 64):
            longer = PARAMETERS.model_copy(update={"n_max": n_max})
            row: Row = {"n_max": n_max}
            for kernel, family, gain in (
                (RMSNORM_26US, "normal", 1.0),
                (RMSNORM_26US, BOOTSTRAP, 1.0),
                (RMSNORM_11US, "normal", 0.0),
                (RMSNORM_11US, "normal", 1.0),
                (RMSNORM_11US, "normal", 2.0),
            ):
                noise, rng = Noise(kernel, family), self._random()
                held = self._held(noise, rng, count)
                got = submit(noise, rng, np.full(count, gain), held, parameters=longer)
                text = f"{got.keep.mean():.3f} ({got.seconds.mean():.1f} s)"
                row[f"{kernel.name} {family} {gain:+g} %"] = text
            rows.append(row)
        return rows

    def exits(self) -> list[Row]:
        """Cheap exits: -20 % dismissed within 6 blocks (required: 99 %), -5 % within 8 blocks"""
        count, rows = 10_000 // self._share, []
        for family in EVERY_FAMILY:
            row: Row = {"noise": family}
            for kernel in KERNELS:
                noise, rng = Noise(kernel, family), self._random()
                for gain, blocks in ((-20.0, 6), (-5.0, 8)):
                    held = self._held(noise, rng, count)
                    got = submit(noise, rng, np.full(count, gain), held)
                    gone = (got.screened == Verdict.SLOWER) | (got.screened == Verdict.NOT_CLOSE)
                    done = int((gone & (got.screen_blocks <= blocks)).sum())
                    text = f"{done / count:.4f} ({lower(done, count):.4f})"
                    row[f"{kernel.name} {gain:+g} %"] = text
            rows.append(row)
        return rows

    def seconds(self) -> list[Row]:
        """Expected seconds per submission (pairs and blocks only); KEEP rate where below 0.95"""
        rows = []
        for kernel in KERNELS:
            for workloads, rho in ((1, 0.0), (14, 0.0), (14, 0.5)):
                noise = Noise(kernel, workloads=workloads, rho=rho)
                held = self._held(noise, self._random(), 1000)
                typical = [np.median(b) for b in (held.blocks_screen, held.blocks_confirm)]
                row: Row = {"kernel": kernel.name, "workloads": workloads, "correlation": rho}
                row["blocks"] = " / ".join(f"{b:.0f}" for b in typical)
                for gain in (-20.0, -5.0, 0.0, 1.0, 5.0):
                    found = self._outcome(noise, gain)
                    text = f"{found['seconds']:.1f}"
                    if gain > 0 and found["KEEP"] < 0.95:
                        text += f" ({found['KEEP']:.2f})"
                    row[f"{gain:+g} %"] = text
                rows.append(row)
        return rows

    def nurseries(self) -> list[Row]:
        """A bias shared by a nursery's pairs: 12 nurseries x 8 pairs calibrate delta; any KEEP"""
        count, rows = 3_000 // self._share, []
        for kernel in KERNELS:
            for bias in (0.0, 0.1, 0.2, 0.3):
                noise, rng = Noise(kernel), self._random()
                found = [calibrate(noise, rng, 12, 8, bias) for _ in range(self._pool_size)]
                known = Calibrations.of(found)
                fixed = Calibrations(
                    known.sd_screen,
                    known.sd_confirm,
                    np.full(self._pool_size, PARAMETERS.delta),
                    known.blocks_screen,
                    known.blocks_confirm,
                )
                row: Row = {"kernel": kernel.name, "shared bias %": bias}
                row |= _medians(found)
                for name, held in (("delta 0.3", fixed), ("delta calibrated", known)):
                    each = held.pick(rng.integers(0, self._pool_size, count))
                    run = campaigns(noise, rng, count, each, bias=bias)
                    row[name] = f"{run.false} of {count} (<= {percent(upper(run.false, count))} %)"
                rows.append(row | self._gain_found(noise, known, bias))
        return rows

    def _gain_found(self, noise: Noise, known: Calibrations, bias: float) -> Row:
        count, rng = 5_000 // self._share, self._random()
        row: Row = {}
        for gain in (1.0, 2.0, 3.0):
            truth, later = (gain + bias * rng.standard_normal(count) for _ in range(2))
            held = known.pick(rng.integers(0, self._pool_size, count))
            got = submit(noise, rng, truth, held, confirm_gain=later)
            row[f"KEEP at {gain:+g} %"] = round(float(got.keep.mean()), 3)
        return row

    def mixed(self) -> list[Row]:
        """A campaign of 100: 40 at -20, 20 at -3, 24 equal, 8 at +0.5, 5 at +1, 3 at +5 %"""
        count, rows = 500 // self._share, []
        effects = np.repeat([-20.0, -3.0, 0.0, 0.5, 1.0, 5.0], [40, 20, 24, 8, 5, 3])
        for kernel in KERNELS:
            noise, rng = Noise(kernel), self._random()
            held = self._held(noise, rng, count)
            order = rng.permuted(np.tile(effects, (count, 1)), axis=1)
            wealth, seconds = np.full(count, PARAMETERS.wealth), np.zeros(count)
            kept = dict.fromkeys(np.unique(effects).tolist(), 0)
            for number in range(order.shape[1]):
                stake = PARAMETERS.fraction * wealth
                got = submit(noise, rng, order[:, number], held, stake)
                seconds += got.seconds
                wealth -= np.where((got.confirm_pairs > 0) & ~got.keep, stake, 0.0)
                for effect in kept:
                    kept[effect] += int((got.keep & (order[:, number] == effect)).sum())
            rows.append(
                {"kernel": kernel.name, "seconds": round(float(seconds.mean()))}
                | {f"kept at {effect:+g} %": round(kept[effect] / count, 2) for effect in kept}
                | {"budget left": round(float(wealth.mean()) / PARAMETERS.wealth, 2)}
            )
        return rows

    def _held(self, noise: Noise, rng: Random, count: int) -> Calibrations:
        """Return a calibration for each of so many submissions or campaigns."""
        if noise not in self._pools:
            own = np.random.SeedSequence([self._seed, zlib.crc32(repr(noise).encode())])
            fixed = np.random.Generator(np.random.SFC64(own))
            self._pools[noise] = pool(noise, fixed, self._pool_size)
        return self._pools[noise].pick(rng.integers(0, self._pool_size, count))

    def _random(self) -> Random:
        return np.random.Generator(np.random.SFC64(self._seeds.spawn(1)[0]))


TABLES = (
    "no_gain",
    "at_delta",
    "field",
    "field_each",
    "power",
    "power_elsewhere",
    "longer",
    "exits",
    "seconds",
    "nurseries",
    "mixed",
)


def _bias(estimates: Floats, gain: float) -> float:
    # Without the zero, a vanishing bias may print as -0.0.
    return round(float(np.nanmean(estimates)) - gain, 3) + 0.0


def _medians(found: Sequence[Calibration]) -> Row:
    shared = [one.shared_bias or 0.0 for one in found]
    resolved = [one.resolution or 0.0 for one in found]
    return {
        "its bound": round(float(np.median(shared)), 2),
        "delta %": round(float(np.median([one.delta for one in found])), 2),
        "resolution %": round(float(np.median(resolved)), 2),
        "called biased": round(float(np.mean([one.biased for one in found])), 3),
    }


def upper(hits: int, of: int) -> float:
    """Return the exact upper bound of a probability, one-sided 95 %."""
    return 1.0 if hits >= of else float(betaincinv(hits + 1, of - hits, 0.95))


def lower(hits: int, of: int) -> float:
    """Return the exact lower bound of a probability, one-sided 95 %."""
    return 0.0 if hits <= 0 else float(betaincinv(hits, of - hits + 1, 0.05))


def percent(probability: float) -> str:
    """Write a probability in percent with the digits that matter."""
    return f"{100 * probability:.3f}" if probability < 0.0995 else f"{100 * probability:.1f}"


def markdown(rows: Sequence[Row]) -> str:
    """Lay rows of equal keys out as a table."""
    lines = [list(rows[0])] + [["" if v is None else str(v) for v in row.values()] for row in rows]
    widths = [max(len(line[i]) for line in lines) for i in range(len(lines[0]))]
    table = [
        "| " + " | ".join(cell.ljust(w) for cell, w in zip(line, widths, strict=True)) + " |"
        for line in lines
    ]
    table.insert(1, "|" + "|".join("-" * (width + 2) for width in widths) + "|")
    return "\n".join(table)


def main() -> None:
    """Run the study."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="a twentieth of the samples")
    parser.add_argument("--only", default="", help="comma-separated: " + ", ".join(TABLES))
    parser.add_argument("--seed", type=int, default=20261)
    parser.add_argument("--out", type=Path, help="write the tables to this JSON file")
    options = parser.parse_args()
    chosen = [name for name in options.only.split(",") if name] or list(TABLES)
    unknown = sorted(set(chosen) - set(TABLES))
    if unknown:
        parser.error(f"--only: {', '.join(unknown)} is no table; there are {', '.join(TABLES)}")
    study = Study(options.seed, 20 if options.quick else 1)
    study.run(chosen)
    if options.out:
        head = {"seed": options.seed, "quick": options.quick}
        text = json.dumps(head | {"tables": study.tables}, indent=1)
        options.out.write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
