"""Candidates that misbehave through one guard, honest ones between: every verdict in time, nothing left behind.

    python -m benchmarks.faults --faults FOLDER --out faults.md

FOLDER has one folder per injector with a `candidate.py` (or `candidate.cu`) whose `run` takes the inputs of the problem
`rmsnorm`. Between them twenty honest evaluations are judged: one kernel that is several times faster than the record,
which must be promising, and one that is several times slower, which must be REVERT `slower`. Exit status 1 where a
verdict is missing, late or not the normal one, or where something stays.
"""

import argparse
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import anyio

from benchmarks.leftovers import Snapshot, guard_folder, left_over, snapshot
from benchmarks.time_to_verdict import CASES, PROBLEM
from kernelarc_guard.decide import Calibration
from kernelarc_guard.devices import default_parameters
from kernelarc_guard.problem import read_problem
from kernelarc_guard.protocol import Progress, Result, Schedule
from kernelarc_guard.solution import Solution, SolutionError, read_solution, seed_solution
from kernelarc_mcp.data import data_dir
from kernelarc_mcp.evaluation import STAKE
from kernelarc_mcp.host.guard_client import GuardClient, GuardError
from kernelarc_mcp.requests import Requests

HONEST: Final = 20
SCHEDULE: Final = Schedule(
    start_seconds=20.0, call_seconds=10.0, build_seconds=60.0, memory_bytes=4 << 30
)
_REST: Final = 60.0
"""Beyond the deadlines of its parts: starting nurseries anew, checking, a busy machine."""
DEADLINE: Final = SCHEDULE.start_seconds + SCHEDULE.call_seconds + SCHEDULE.build_seconds + _REST
_EXPECTED: Final = {"KEEP": (None, None), "REVERT": ("REVERT", "slower")}
_MOST_GROWTH: Final = 256 << 20
"""Bytes that the guard may hold more after all of it than after the first honest verdict."""


@dataclass
class Table:
    """The rows so far and what went wrong."""

    rows: list[str] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)

    def add(self, name: str, said: Result | str, seconds: float, good: bool) -> None:
        """Add one evaluation."""
        if isinstance(said, Result):
            told = f"{said.verdict or 'promising'} | {said.reason or ''} | {said.stage}"
        else:
            told = f"none: {said} | | "
        self.rows.append(f"| {name} | {told} | {seconds:.1f} |")
        if not good:
            self.wrong.append(self.rows[-1])
        print(self.rows[-1], flush=True)


@dataclass
class Study:
    """One guard, and what all evaluations share."""

    guard: GuardClient
    requests: Requests
    record: Solution
    calibration: Calibration
    table: Table
    honest: int = 0

    async def judge(self, candidate: Solution) -> tuple[Result | str, float]:
        """Return what the guard said and in how many seconds, those of waiting for the device not counted."""
        begin = time.monotonic()

        def heard(progress: Progress) -> None:
            nonlocal begin
            if progress.message == "device held":
                begin = time.monotonic()

        screen = self.requests.screen(
            "s", self.record, candidate, calibration=self.calibration, stake=STAKE
        )
        try:
            said: Result | str = await self.guard.judge(
                screen, deadline=DEADLINE, on_progress=heard
            )
        except GuardError as error:
            said = f"{type(error).__name__}: {error}"
        return said, time.monotonic() - begin

    async def fault(self, path: Path) -> None:
        """Judge an injector: any verdict, or promising, will do, but no silence and no refusal."""
        try:
            candidate = read_solution(path, self.requests.problem.definition)
        except SolutionError as error:
            # The host says this before any guard is asked.
            self.table.add(path.parent.name, f"envelope: {error}", 0.0, True)
            return
        said, seconds = await self.judge(candidate)
        good = isinstance(said, Result) and seconds < DEADLINE
        self.table.add(path.parent.name, said, seconds, good)

    async def well(self) -> None:
        """Judge an honest kernel, the fast and the slow one in turn."""
        kind = "KEEP" if self.honest % 2 == 0 else "REVERT"
        said, seconds = await self.judge(CASES[kind](self.honest))
        normal = isinstance(said, Result) and (said.verdict, said.reason) == _EXPECTED[kind]
        self.honest += 1
        name = f"honest {self.honest}, {'faster' if kind == 'KEEP' else 'slower'}"
        self.table.add(name, said, seconds, normal and seconds < DEADLINE)


def main() -> None:
    """Judge them all and say what is left."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--faults", type=Path, required=True)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--python", default=sys.executable, help="interpreter of the guard")
    asked = parser.parse_args()
    paths = sorted(asked.faults.glob("*/candidate.*"))
    if not paths:
        parser.error(
            f"--faults {asked.faults}: expected folders with a candidate.py or candidate.cu"
        )
    lines, wrong = anyio.run(study, paths, asked.python)
    print("\n".join(lines))
    if asked.out:
        asked.out.write_text("\n".join(lines) + "\n")
    sys.exit(bool(wrong))


async def study(paths: list[Path], python_path: str) -> tuple[list[str], list[str]]:
    """Return the report's lines and what went wrong."""
    folder = data_dir("kernels") / PROBLEM
    problem = read_problem(folder)
    record = seed_solution(folder, problem.definition)
    assert record is not None
    table = Table()
    with tempfile.TemporaryDirectory() as cache:
        async with GuardClient(python_path) as guard:
            requests = Requests(problem, "cpu", cache, default_parameters("cpu"), SCHEDULE)
            request = requests.calibrate("c", record, nurseries=1, pairs=8)
            calibration = (await guard.judge(request, deadline=10 * DEADLINE)).calibration
            assert calibration is not None
            one = Study(guard, requests, record, calibration, table)
            await one.well()
            assert guard.pid is not None
            own = guard_folder(guard.pid)
            before = _look(guard, cache)
            last = before
            for index, path in enumerate(paths):
                await one.fault(path)
                # Twenty in all, spread over the injectors.
                while one.honest < 1 + (HONEST - 1) * (index + 1) // len(paths):
                    await one.well()
                last = _look(guard, cache)
                table.wrong += [f"after {path.parent.name}: {s}" for s in left_over(before, last)]
        if own.exists():
            table.wrong.append(f"after the guard's end: {own.name}")
    growth = last.resident - before.resident
    if growth > _MOST_GROWTH:
        table.wrong.append(f"the guard holds {growth >> 20} MiB more than before")
    return _report(table, before, last), table.wrong


def _look(guard: GuardClient, cache: str) -> Snapshot:
    assert guard.pid is not None
    return snapshot(guard.pid, Path(cache))


def _report(table: Table, before: Snapshot, after: Snapshot) -> list[str]:
    return [
        f"Deadline of a verdict: {DEADLINE:g} s, from the moment the device is held.",
        "",
        "| candidate | verdict | reason | stage | seconds |",
        "|---|---|---|---|---|",
        *table.rows,
        "",
        "| | before | after |",
        "|---|---|---|",
        f"| processes below the guard | {len(before.processes)} | {len(after.processes)} |",
        f"| files in the guard's folder | {len(before.files)} | {len(after.files)} |",
        f"| shared memory with a name | {len(before.shared)} | {len(after.shared)} |",
        f"| descriptors of the guard | {before.descriptors} | {after.descriptors} |",
        f"| memory of the guard, MiB | {before.resident >> 20} | {after.resident >> 20} |",
        "",
        *(["Wrong:", *table.wrong] if table.wrong else ["Nothing was wrong and nothing was left."]),
    ]


if __name__ == "__main__":
    main()
