"""Every problem of the library on one device: are reference and solutions right, how long do they take, and what is the bound.

For each problem the guard counts bytes and operations, judges each solution that is meant for the device for
correctness, and measures it beside the reference. Prints one table; every answer goes to the raw file as soon as it is
there, and what the file holds already is not measured again, so that a run that was cut off goes on (what the guard could not
judge is tried again).

    python benchmarks/library_table.py --raw library.jsonl
    python benchmarks/library_table.py --device cuda:0 --raw library_h200.jsonl --seconds 540
"""

import argparse
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import anyio

from benchmarks.library_rows import Judged, RowsError, Workload, append_row, print_table, read_rows
from kernelarc_guard.devices import default_parameters
from kernelarc_guard.inquiries import Count, Counted
from kernelarc_guard.problem import Problem, read_problem
from kernelarc_guard.protocol import Result
from kernelarc_guard.solution import Solution, reference_solution
from kernelarc_mcp.cli.options import library
from kernelarc_mcp.evaluation import STAKE
from kernelarc_mcp.host.guard_client import GuardClient, GuardDied, GuardRefused
from kernelarc_mcp.library import runs_on, solutions_of
from kernelarc_mcp.requests import Requests
from kernelarc_mcp.scores.bounds import bounds_of
from kernelarc_mcp.scores.roofline import Roofline, roofline

REFERENCE = "reference"


def main() -> None:
    """Judge what is not in the raw file yet, then print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--problem", action="append", help="instead of all; may be repeated")
    parser.add_argument("--workloads", help="workload.jsonl on a CPU, workload.gpu.jsonl on a GPU")
    parser.add_argument("--pairs", type=int, default=2, help="of each comparison; 0: only judge")
    parser.add_argument("--seconds", type=float, default=540.0, help="nothing is begun after these")
    parser.add_argument("--each", type=float, default=180.0, help="deadline of one answer, seconds")
    parser.add_argument("--python", default=sys.executable, help="interpreter of the guard")
    parser.add_argument("--raw", type=Path, required=True, help="one JSON a line, appended to")
    options = parser.parse_args()
    asked = subjects(options)
    try:
        left = anyio.run(study, options, asked)
        rows = read_rows(options.raw)
    except RowsError as error:
        parser.error(str(error))
    now = {one.key(options.device) for one in asked}
    print_table([row for row in rows if row.key in now])
    if left:
        print(f"Not reached in {options.seconds:g} s; run again to go on: {', '.join(left)}")


@dataclass(frozen=True)
class Subject:
    """One solution of one problem."""

    problem: Problem
    file: str
    solution: Solution

    @property
    def name(self) -> str:
        """Return what it is called in messages."""
        return f"{self.problem.definition.name} {self.file}"

    def key(self, device: str) -> tuple[str, str, str]:
        """Return what its row is found by."""
        return device, self.problem.digest, self.solution.digest


def subjects(options: argparse.Namespace) -> list[Subject]:
    """Return what is to be judged: references and seeds first, then the other solutions."""
    file = options.workloads or (
        "workload.jsonl" if options.device == "cpu" else "workload.gpu.jsonl"
    )
    found = []
    for name, folder in library().items():
        if options.problem and name not in options.problem:
            continue
        problem = read_problem(folder, file)
        found.append(Subject(problem, REFERENCE, reference_solution(problem.definition)))
        found += [
            Subject(problem, path, solution)
            for path, solution in solutions_of(folder, problem.definition).items()
            if runs_on(solution, options.device)
        ]
    # Should time not suffice, every problem has its reference and seed before any has more.
    return sorted(found, key=lambda one: one.file != REFERENCE and not one.file.startswith("seed"))


async def study(options: argparse.Namespace, asked: list[Subject]) -> list[str]:
    """Judge every subject that has no row; returns those that time did not suffice for."""
    end = time.monotonic() + options.seconds
    known = {row.key for row in read_rows(options.raw) if row.judged}
    bounds: dict[str, list[Roofline | None]] = {}
    left: list[str] = []
    with tempfile.TemporaryDirectory() as cache:
        async with GuardClient(options.python) as guard:
            for one in asked:
                if one.key(options.device) in known:
                    continue
                if time.monotonic() > end:
                    left.append(one.name)
                    continue
                asking = Asking(guard, one, options, cache, bounds)
                row = await asking.row()
                append_row(options.raw, row)
                known.add(row.key)
                said = "right" if row.right else f"{row.verdict} {row.reason}: {row.detail}"
                print(f"{one.name}: {said} ({row.seconds:.0f} s)", file=sys.stderr)
    return left


@dataclass(frozen=True)
class Asking:
    """What is asked of the guard about one subject."""

    guard: GuardClient
    subject: Subject
    options: argparse.Namespace
    cache: str
    bounds: dict[str, list[Roofline | None]]
    """By problem, counted once."""

    async def row(self) -> Judged:
        """Return what the guard says; a refusal or a dead guard is a row too."""
        begin = time.monotonic()
        problem, solution = self.subject.problem, self.subject.solution
        verdict = reason = detail = ""
        screened = compared = None
        limits: list[Roofline | None] = [None] * len(problem.workloads)
        try:
            limits = await self._limits()
            screened = await self._screen()
            # The reference's own times are those beside each solution.
            alone = self.subject.file == REFERENCE or not self.options.pairs
            if screened.verdict is None and not alone:
                compared = await self._compare()
        except GuardRefused as error:
            verdict, reason, detail = "refused", error.code, str(error)
        except GuardDied as error:
            verdict, detail = "none", str(error)
        failed = next((one for one in (screened, compared) if one and one.verdict), None)
        if failed is not None:
            verdict, reason, detail = failed.verdict or "", failed.reason or "", failed.detail
        return Judged(
            device=self.options.device,
            problem=problem.definition.name,
            operator_class=problem.definition.operator_class,
            problem_digest=problem.digest,
            solution=self.subject.file,
            solution_digest=solution.digest,
            right=not verdict,
            verdict=verdict,
            reason=reason,
            detail=detail,
            workloads=_workloads(problem, limits, screened, compared),
            observations=screened.observations if screened else [],
            protection=screened.protection if screened else {},
            pairs=self.options.pairs,
            at=datetime.now(UTC).isoformat(timespec="seconds"),
            seconds=time.monotonic() - begin,
        )

    @property
    def _requests(self) -> Requests:
        parameters = default_parameters(self.options.device)
        return Requests(self.subject.problem, self.options.device, self.cache, parameters)

    async def _limits(self) -> list[Roofline | None]:
        problem = self.subject.problem
        if problem.digest not in self.bounds:
            request = Count(
                id="count", device=self.options.device, cache_dir=self.cache, problem=problem
            )
            counted = await self.guard.inquire(request, deadline=self.options.each)
            assert isinstance(counted, Counted)
            known = bounds_of(problem)
            self.bounds[problem.digest] = [
                roofline(work, counted.roofs, known, problem.definition.resolve(workload.axes))
                for work, workload in zip(counted.work, problem.workloads, strict=True)
            ]
        return self.bounds[problem.digest]

    async def _screen(self) -> Result:
        reference = reference_solution(self.subject.problem.definition)
        request = self._requests.screen(
            "screen", reference, self.subject.solution, calibration=None, stake=STAKE
        )
        request = request.model_copy(update={"correctness_only": True})
        return await self.guard.judge(request, deadline=self.options.each)

    async def _compare(self) -> Result:
        reference = reference_solution(self.subject.problem.definition)
        request = self._requests.compare(
            "compare", reference, self.subject.solution, pairs=self.options.pairs, blocks=1
        )
        return await self.guard.judge(request, deadline=self.options.each)


def _workloads(
    problem: Problem,
    limits: list[Roofline | None],
    screened: Result | None,
    compared: Result | None,
) -> list[Workload]:
    checked = _by_uuid(screened, lambda one: one.max_absolute_error)
    reference = _by_uuid(compared, lambda one: one.record_us)
    solution = _by_uuid(compared, lambda one: one.candidate_us)
    return [
        Workload(
            uuid=one.uuid,
            axes=one.axes,
            max_absolute_error=checked.get(one.uuid),
            reference_us=reference.get(one.uuid),
            solution_us=solution.get(one.uuid),
            bound_us=None if limit is None else 1e3 * limit.milliseconds,
            limited_by="" if limit is None else limit.limited_by,
            bound_source="" if limit is None else limit.source,
        )
        for one, limit in zip(problem.workloads, limits, strict=True)
    ]


def _by_uuid(result: Result | None, value: Callable[..., float | None]) -> dict[str, float | None]:
    return {one.uuid: value(one) for one in result.workloads} if result else {}


if __name__ == "__main__":
    main()
