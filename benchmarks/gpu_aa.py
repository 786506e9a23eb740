"""A/A study on a GPU: a bank of fresh pairs, virtual submissions from it, and real ones.

    python -m benchmarks.gpu_aa measure --bank FOLDER --seconds 300 --device cuda:0
    python -m benchmarks.gpu_aa measure --bank FOLDER --seconds 300 --device cuda:1 --lane 2/2
    python -m benchmarks.gpu_aa report --bank FOLDER --out docs/measurements

`measure` goes on where the bank ends and stops at the given second; with lanes, several devices
share the work, a guard each. A unit is one nursery: pairs of a kernel with itself, or with itself and
a delay planted inside (gpu_subjects). `real` submissions go end to end through gate, screen and
confirmation; `kernelarc-mcp verify --pairs FOLDER/real-*.jsonl` decides them again.
"""

import argparse
import os
import statistics
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import anyio

from benchmarks import aa_study
from benchmarks.gpu_aa_report import write_report
from benchmarks.gpu_bank import Unit, append_unit, read_units
from benchmarks.gpu_subjects import Subject, subjects
from kernelarc_guard.cuda import driver
from kernelarc_guard.devices import default_parameters
from kernelarc_mcp.host.guard_client import GuardClient, GuardError
from kernelarc_mcp.recorded import read_recorded
from kernelarc_mcp.requests import Requests

PLANTED = (1.0, 2.0, 0.5, 5.0)
"""Percent, the most telling first."""
BLOCKS = 8
_CLOCK_RATE = 13
"""CU_DEVICE_ATTRIBUTE_CLOCK_RATE, in kHz."""
_DEADLINE = 600.0
_SUBMISSION, _START = 24, 3
"""Pairs that a real submission, and the start of a unit, are reckoned to cost at most."""
_FIRST_GUESS = 2.0
"""Seconds of a pair before one was measured."""


@dataclass(frozen=True)
class Task:
    """A unit or a real submission that is still to be done."""

    subject: str
    planted: float | None
    """None: a real submission."""
    pairs: int


def main() -> None:
    """Measure or report."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    commands = parser.add_subparsers(dest="command", required=True)
    measuring = commands.add_parser("measure")
    measuring.add_argument("--bank", type=Path, required=True)
    measuring.add_argument("--device", default="cuda:0")
    measuring.add_argument("--lane", default="1/1", help="which part of the work, as in 2/2")
    measuring.add_argument("--seconds", type=float, default=300.0)
    measuring.add_argument("--subject", action="append", choices=list(subjects()))
    measuring.add_argument("--what", default="same,real,planted", help="in order of value")
    measuring.add_argument("--nurseries", type=int, default=12)
    measuring.add_argument("--pairs", type=int, default=17, help="of each nursery")
    measuring.add_argument("--planted-pairs", type=int, default=6, help="of each nursery")
    measuring.add_argument("--real", type=int, default=2, help="submissions for each nursery")
    measuring.add_argument("--python", default=sys.executable, help="interpreter of the guard")
    reporting = commands.add_parser("report")
    reporting.add_argument("--bank", type=Path, required=True)
    reporting.add_argument("--out", type=Path, required=True)
    reporting.add_argument("--submissions", type=int, default=20_000)
    options = parser.parse_args()
    if options.command == "report":
        write_report(options.bank, options.out, options.submissions)
    else:
        options.bank.mkdir(parents=True, exist_ok=True)
        anyio.run(measure, options)


def planned(options: argparse.Namespace) -> Iterator[Task]:
    """Yield what a whole study of this lane is, the most valuable first."""
    lane, of = (int(part) for part in options.lane.split("/"))
    names = options.subject or list(subjects())
    rounds = range(lane - 1, options.nurseries, of)
    kinds = options.what.split(",")
    first = [kind for kind in kinds if kind in ("same", "real")]
    for _ in rounds:
        for name in names:
            if "same" in first:
                yield Task(name, 0.0, options.pairs)
            if "real" in first:
                yield from [Task(name, None, 1)] * options.real
    if "planted" in kinds:
        for _ in rounds:
            for planted in PLANTED:
                yield from (Task(name, planted, options.planted_pairs) for name in names)


def left(options: argparse.Namespace) -> list[Task]:
    """Return the tasks of this lane that this device has not done yet."""
    done = Counter((u.subject, u.planted) for u in read_units(options.bank) if _mine(u, options))
    real = Counter(
        one.problem
        for path in _own(options, "real")
        if path.exists()
        for one in read_recorded(path)
    )
    tasks = []
    for task in planned(options):
        if task.planted is None and real[task.subject]:
            real[task.subject] -= 1
        elif task.planted is not None and done[task.subject, task.planted]:
            done[task.subject, task.planted] -= 1
        else:
            tasks.append(task)
    return tasks


def _mine(unit: Unit, options: argparse.Namespace) -> bool:
    return bool(unit.device == options.device or options.lane == "1/1")


def _own(options: argparse.Namespace, kind: str) -> list[Path]:
    everybody = sorted(options.bank.glob(f"{kind}-*.jsonl"))
    return everybody if options.lane == "1/1" else [_file(options, kind)]


def _file(options: argparse.Namespace, kind: str) -> Path:
    path: Path = options.bank / f"{kind}-{options.device.replace(':', '')}.jsonl"
    return path


async def measure(options: argparse.Namespace) -> None:
    """Do tasks until the time is over; a task that would not fit is not begun."""
    until = time.monotonic() + options.seconds
    known = subjects()
    took = {name: _FIRST_GUESS for name in known}
    for unit in read_units(options.bank):
        took[unit.subject] = unit.seconds / len(unit.pairs)
    cycles = Cycles(options)
    with tempfile.TemporaryDirectory() as cache:
        async with GuardClient(options.python, options.bank / "guard.log") as guard:
            cases: dict[str, aa_study.Case] = {}
            refused: set[str] = set()
            for task in left(options):
                expected = _SUBMISSION if task.planted is None else task.pairs + _START
                if time.monotonic() + took[task.subject] * expected > until:
                    print(f"{task}: would not end in time", flush=True)
                    break
                subject = known[task.subject]
                if subject.name in refused:
                    continue
                try:
                    if task.planted is None:
                        if task.subject not in cases:
                            cases[task.subject] = await _case(guard, subject, options, cache)
                        await _submit(guard, cases[task.subject], options)
                    else:
                        count = cycles.of(task)
                        unit = await _unit(guard, subject, task, count, options, cache)
                        took[task.subject] = unit.seconds / len(unit.pairs)
                except GuardError as error:
                    print(f"{task}: the guard {error}", flush=True)
                    refused.add(subject.name)
    print(f"{len(left(options))} tasks are left", flush=True)


class Cycles:
    """How long a wait makes a delay of so many percent: from what the kernel took in the bank."""

    def __init__(self, options: argparse.Namespace) -> None:
        """Read nothing yet."""
        self._options = options

    def of(self, task: Task) -> int:
        """Return the cycles of a task, the same as in the bank where it has such units.

        Opens the driver the first time; SystemExit where the bank has no unit without a delay.
        """
        if not task.planted:
            return 0
        units = [unit for unit in read_units(self._options.bank) if unit.subject == task.subject]
        before = next((u.cycles for u in units if u.planted == task.planted), None)
        if before is not None:
            return before
        calls = [
            call
            for unit in units
            if not unit.planted
            for pair in unit.pairs
            for block in pair.blocks
            for call in block.candidate[0]
        ]
        if not calls:
            raise SystemExit(f"{task.subject}: measure it against itself first, without a delay")
        driver.device_count()
        number = int(self._options.device.partition(":")[2])
        per_ns = driver.attribute(number, _CLOCK_RATE) / 1e6
        return round(statistics.median(calls) * task.planted / 100 * per_ns)


async def _unit(
    guard: GuardClient,
    subject: Subject,
    task: Task,
    cycles: int,
    options: argparse.Namespace,
    cache: str,
) -> Unit:
    """Measure one nursery's pairs: the delayed kernel is the record, the plain one the candidate."""
    requests = _requests(subject, options, cache)
    begin = time.monotonic()
    request = requests.compare(
        "unit", subject.planted(cycles), subject.planted(0), pairs=task.pairs, blocks=BLOCKS
    )
    result = await guard.judge(request, deadline=_DEADLINE)
    if result.verdict is not None:
        raise SystemExit(f"{task}: {result.verdict} {result.reason}: {result.detail}")
    unit = Unit(
        subject=subject.name,
        planted=task.planted or 0.0,
        cycles=cycles,
        device=options.device,
        at=datetime.now(UTC).isoformat(timespec="seconds"),
        seconds=time.monotonic() - begin,
        pairs=result.pairs,
    )
    append_unit(_file(options, "bank"), unit)
    print(f"{task}: {unit.seconds:.1f} s", flush=True)
    return unit


async def _case(
    guard: GuardClient, subject: Subject, options: argparse.Namespace, cache: str
) -> aa_study.Case:
    requests = _requests(subject, options, cache)
    record = subject.planted(0)
    request = requests.calibrate("calibrate", record, nurseries=1, pairs=8)
    found = (await guard.judge(request, deadline=_DEADLINE)).calibration
    assert found is not None
    return aa_study.Case(subject.name, requests, record, found)


async def _submit(guard: GuardClient, case: aa_study.Case, options: argparse.Namespace) -> None:
    """Judge the kernel as if it were a candidate, end to end."""
    results, seconds = await aa_study.judge(guard, case, 0.0, os.getpid(), _file(options, "real"))
    last = results[-1]
    print(f"{case.name}: real {last.verdict} {last.reason}, {seconds:.1f} s", flush=True)


def _requests(subject: Subject, options: argparse.Namespace, cache: str) -> Requests:
    return Requests(subject.problem, options.device, cache, default_parameters(options.device))


if __name__ == "__main__":
    main()
