"""NVIDIA's kernel profiler: where it is, how it is run, and what its table says; light.

The device's clocks are left alone (`--clock-control none`): they are not this project's to set.
"""

import csv
import math
import os
import re
import shutil
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from kernelarc_guard.cuda.nvcc import find_nvcc
from kernelarc_guard.kernel_names import short_name
from kernelarc_guard.profile_model import KernelFacts, printable

MOST_KERNELS: Final = 40
"""Launches of one call that are profiled; a call with more is profiled in part, and that is said."""
_SECTIONS: Final = (
    "SpeedOfLight",
    "ComputeWorkloadAnalysis",
    "MemoryWorkloadAnalysis",
    "SchedulerStats",
    "WarpStateStats",
    "LaunchStats",
    "Occupancy",
)
_METRICS: Final = (
    "dram__bytes_read.sum",
    "dram__bytes_write.sum",
    "lts__throughput.avg.pct_of_peak_sustained_elapsed",
    "gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed",
    "sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_active",
)
_STALL: Final = re.compile(
    r"smsp__average_warps_issue_stalled_(?P<reason>[a-z_]{1,40})_per_issue_active\.ratio"
)
_NO_STALLS: Final = frozenset({"selected", "not_selected"})
_MATRIX: Final = re.compile(r"sm__pipe_tensor\w*_cycles_active\.avg\.pct_of_peak_sustained_active")
_LIMITS: Final = {
    "launch__occupancy_limit_registers": "registers",
    "launch__occupancy_limit_shared_mem": "shared memory",
    "launch__occupancy_limit_warps": "warps",
    "launch__occupancy_limit_blocks": "blocks",
    "launch__occupancy_limit_barriers": "barriers",
}
_SCALES: Final = {"n": 1e-9, "u": 1e-6, "m": 1e-3, "K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}
_BASES: Final = ("second", "s", "byte", "hz")
_TOP_STALLS: Final = 3
_ERROR: Final = 200

_NO_KERNELS: Final = "No kernels were profiled"
# What it prints -> what to tell people.
_REFUSALS: Final = {
    "ERR_NVGPUCTRPERM": (
        "hardware counters are not permitted for this user here: an administrator allows them with"
        " the driver's option NVreg_RestrictProfilingToAdminUsers=0"
    ),
    "LibraryNotLoaded": (
        "the profiler cannot reach the hardware counters on this kind of machine (it says"
        " LibraryNotLoaded); some virtual machines have none"
    ),
    "ERR_NVGPUCTRUNAVAIL": (
        "another profiler or monitor holds the hardware counters (ERR_NVGPUCTRUNAVAIL)"
    ),
    _NO_KERNELS: "the call launched no kernel that could be profiled",
}


@dataclass(frozen=True)
class Ncu:
    """The profiler on this machine."""

    program: str
    root: str
    """Its installation: a sandbox has to show it."""


def find_ncu() -> Ncu | None:
    """Return this machine's profiler, the newest where there are several; None where there is none."""
    nvcc = find_nvcc()
    places = [shutil.which("ncu"), f"{nvcc.root}/bin/ncu" if nvcc else None]
    installed = Path("/opt/nvidia/nsight-compute")
    places += [str(one / "ncu") for one in sorted(installed.glob("*"), reverse=True)]
    for place in places:
        if place and os.access(place, os.X_OK):
            return installation(Path(os.path.realpath(place)), installed)
    return None


def installation(program: Path, installed: Path) -> Ncu:
    """Return the installation that a program belongs to: its sections and libraries lie beside it."""
    own = [one for one in sorted(installed.glob("*"), reverse=True) if (one / "ncu").exists()]
    if program.is_relative_to(installed):
        root = installed / program.relative_to(installed).parts[0]
    elif own:
        # A toolkit's bin has a wrapper that starts what lies there.
        root = own[0]
    else:
        root = program.parent
    starter = root / "ncu"
    return Ncu(str(starter if starter.exists() else program), str(root))


def profiling_command(ncu: Ncu, report: str, program: list[str]) -> list[str]:
    """Return what runs `program` and writes the report of the kernels between its profiler marks."""
    words = [ncu.program, "--clock-control", "none", "--cache-control", "all"]
    words += ["--target-processes", "application-only", "--profile-from-start", "off"]
    words += ["--replay-mode", "kernel", "--launch-count", str(MOST_KERNELS), "--force-overwrite"]
    for section in _SECTIONS:
        words += ["--section", section]
    return [*words, "--metrics", ",".join(_METRICS), "--export", report, *program]


def table_command(ncu: Ncu, report: str) -> list[str]:
    """Return what prints a report as the table that `read_table` reads."""
    return [ncu.program, "--import", report, "--page", "raw", "--csv", "--print-units", "base"]


def refusal(output: str) -> str:
    """Return why nothing was profiled, from what the profiler printed; empty where it does not say."""
    known = next((told for sign, told in _REFUSALS.items() if sign in output), "")
    if known:
        return known
    errors = re.findall(r"==ERROR== (.+)", output)
    return f"the profiler failed: {printable(errors[0], _ERROR)}" if errors else ""


def not_permitted(output: str) -> bool:
    """Say whether the profiler may not, or cannot, read this machine's counters at all."""
    return any(sign in output for sign in _REFUSALS if sign != _NO_KERNELS)


def read_table(text: str) -> list[KernelFacts]:
    """Read a raw table: a line of names, one of units, then one for each launch.

    Kernels of the same name become one, with the facts of the longest launch. ValueError where it is
    no such table; a solution may have written the report that it is of.
    """
    lines = [line for line in text.splitlines() if line.startswith('"')]
    rows = list(csv.reader(lines))
    if len(rows) < 3 or "Kernel Name" not in rows[0]:
        raise ValueError("the profiler's table has no kernels")
    names, units = rows[0], rows[1]
    if any(len(row) != len(names) for row in rows):
        raise ValueError("the profiler's table has lines of different lengths")
    found: dict[str, list[KernelFacts]] = {}
    for row in rows[2:]:
        facts = _facts(_Row(dict(zip(names, zip(row, units, strict=True), strict=True))))
        found.setdefault(facts.name, []).append(facts)
    merged = [_merged(launches) for launches in found.values()]
    return sorted(merged, key=lambda one: one.microseconds, reverse=True)


class _Row:
    """One launch: metric -> value and unit."""

    def __init__(self, cells: Mapping[str, tuple[str, str]]) -> None:
        self.cells = cells

    def number(self, name: str) -> float | None:
        """Return a metric in its base unit (seconds, bytes, percent); None where it was not taken."""
        value, unit = self.cells.get(name, ("", ""))
        try:
            number = float(value.replace(",", "")) * _scale(unit)
        except ValueError:
            return None
        return number if math.isfinite(number) else None

    def whole(self, name: str) -> int | None:
        """Return a metric that is a count."""
        number = self.number(name)
        return None if number is None else round(number)


def _scale(unit: str) -> float:
    """Return what a prefixed unit is multiplied with: `usecond` and `us` are 1e-6, `Kbyte` 1e3."""
    first = unit.partition("/")[0]
    if first[:1] in _SCALES and first[1:] in _BASES:
        return _SCALES[first[0]]
    return 1.0


def _facts(row: _Row) -> KernelFacts:
    seconds = row.number("gpu__time_duration.sum") or 0.0
    shared = [row.whole(f"launch__shared_mem_per_block_{kind}") for kind in ("static", "dynamic")]
    known = [one for one in shared if one is not None]
    moved = [row.number(f"dram__bytes_{way}.sum") for way in ("read", "write")]
    traffic = [one for one in moved if one is not None]
    return KernelFacts(
        name=short_name(row.cells["Kernel Name"][0]),
        microseconds=seconds * 1e6,
        compute_percent=row.number("sm__throughput.avg.pct_of_peak_sustained_elapsed"),
        memory_percent=row.number(
            "gpu__compute_memory_throughput.avg.pct_of_peak_sustained_elapsed"
        ),
        dram_percent=row.number("gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed"),
        l2_percent=row.number("lts__throughput.avg.pct_of_peak_sustained_elapsed"),
        matrix_percent=_largest(row, (name for name in row.cells if _MATRIX.fullmatch(name))),
        l2_hit_percent=row.number("lts__t_sector_hit_rate.pct"),
        dram_bytes=sum(traffic) if traffic else None,
        occupancy_percent=row.number("sm__warps_active.avg.pct_of_peak_sustained_active"),
        occupancy_limit_percent=row.number("sm__maximum_warps_per_active_cycle_pct"),
        limiter=_limiter(row),
        registers=row.whole("launch__registers_per_thread"),
        shared_bytes=sum(known) if known else None,
        blocks=row.whole("launch__grid_size"),
        threads=row.whole("launch__block_size"),
        waves=row.number("launch__waves_per_multiprocessor"),
        stalls=_stalls(row),
    )


def _largest(row: _Row, names: Iterable[str]) -> float | None:
    values = [value for name in names if (value := row.number(name)) is not None]
    return max(values, default=None)


def _limiter(row: _Row) -> str:
    # 0 stands where dynamic shared memory beyond the usual size hides the number.
    limits = {
        told: value for name, told in _LIMITS.items() if (value := row.number(name)) is not None
    }
    positive = {told: value for told, value in limits.items() if value > 0}
    if not positive:
        return ""
    least = min(positive.values())
    return " and ".join(told for told, value in positive.items() if value == least)


def _stalls(row: _Row) -> dict[str, float]:
    found = {}
    for name in row.cells:
        match = _STALL.fullmatch(name)
        if match is not None and match["reason"] not in _NO_STALLS:
            value = row.number(name)
            if value is not None and value > 0:
                found[match["reason"]] = round(value, 2)
    top = sorted(found.items(), key=lambda one: one[1], reverse=True)
    return dict(top[:_TOP_STALLS])


def _merged(launches: list[KernelFacts]) -> KernelFacts:
    longest = max(launches, key=lambda one: one.microseconds)
    whole = sum(one.microseconds for one in launches)
    return longest.model_copy(update={"launches": len(launches), "microseconds": round(whole, 3)})
