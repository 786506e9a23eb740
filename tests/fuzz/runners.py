"""Targets: hostile solutions in real runners, through the gate and through a pair (imports torch)."""

import shutil
import tempfile
from pathlib import Path
from typing import Final

from fuzz.hostile import SOLUTIONS
from fuzz.target import Target
from guard_process import REFERENCE, problem, python
from hypothesis import strategies as st
from laboratory import Laboratory

from kernelarc_guard.bench import Bench, Contestant, run_pair
from kernelarc_guard.build import build
from kernelarc_guard.correctness import check_workloads, smoke
from kernelarc_guard.draws import Drawer
from kernelarc_guard.faults import CandidateFault
from kernelarc_guard.oracle import Oracle
from kernelarc_guard.problem import Problem
from kernelarc_guard.protocol import ANSWER, Result, Schedule
from kernelarc_guard.reasons import REASONS
from kernelarc_guard.report import Outcome, Report
from kernelarc_guard.solution import Solution

_SCHEDULE: Final = Schedule(
    calls=2,
    warmup_calls=1,
    start_seconds=8.0,
    call_seconds=6.0,
    evict_bytes=0,
    memory_bytes=4 << 30,
)


class _Real:
    """A nursery that is replaced when a candidate has taken it down."""

    lab: Laboratory | None = None
    folder = ""

    def get(self) -> Laboratory:
        """Return a laboratory whose nursery lives."""
        if self.lab is not None and self.lab.nursery.lost:
            self.close()
        if self.lab is None:
            self.folder = tempfile.mkdtemp(prefix="fuzz-")
            self.lab = Laboratory(Path(self.folder))
        return self.lab

    def close(self) -> None:
        """End it."""
        if self.lab is not None:
            self.lab.__exit__()
            shutil.rmtree(self.folder, ignore_errors=True)
            self.lab = None

    def contestant(self, source: str, slot: int) -> Contestant:
        """Return a built solution."""
        lab = self.get()
        solution = Solution.model_validate(python(source))
        cache = lab.folder / "cache"
        built = build(solution, cache, seconds=60, memory_bytes=4 << 30, sandbox=lab.sandbox)
        return Contestant(solution, built, slot)


REAL = _Real()
_SELDOM: Final = st.sampled_from([True, False, False, False])
_PROBLEM: Final = Problem.model_validate(problem())


def _bench(report: Report) -> Bench:
    return Bench(_PROBLEM, _SCHEDULE, Oracle(_PROBLEM), Drawer(_PROBLEM, 0), report.observe)


def _gate(case: tuple[str, bool]) -> None:
    """A wrong solution is refused with a reason, whatever it does beside; a right one then passes."""
    source, then_right = case
    result = _judged(source)
    assert result.verdict in ("REJECT", "REVERT"), result
    assert result.reason in REASONS and result.detail
    if not then_right:
        return
    right = _judged(REFERENCE)
    assert right.verdict is None and right.stages["correctness"].state == "passed", right


def _judged(source: str) -> Result:
    report = Report("r", "screen", lambda _: None)
    report.watch(_PROBLEM)
    candidate = REAL.contestant(source, 1)
    bench, nursery = _bench(report), REAL.get().nursery
    try:
        with report.stage("smoke"):
            tried = smoke(bench, nursery, candidate, report)
        with report.stage("correctness"):
            check_workloads(bench, nursery, candidate, tried, report)
    except Outcome as outcome:
        report.settle(outcome)
    nursery.clean()
    result = report.result({}, 0.0)
    # What the host gets is what was decided.
    assert ANSWER.validate_json(result.model_dump_json().encode()) == result
    return result


def _pair(source: str) -> None:
    """The candidate is to blame for what it does to a pair, and never the record."""
    report = Report("r", "compare", lambda _: None)
    record, candidate = REAL.contestant(REFERENCE, 0), REAL.contestant(source, 1)
    nursery = REAL.get().nursery
    try:
        run_pair(_bench(report), nursery, record, candidate, 1, lambda: None)
    except CandidateFault as fault:
        assert fault.reason in REASONS and fault.detail
    else:
        raise AssertionError("wrong answers were measured")
    finally:
        nursery.clean()


TARGETS = [
    Target("hostile runners at the gate", st.tuples(SOLUTIONS, _SELDOM), _gate, few=1),
    Target("hostile runners beside the record", SOLUTIONS, _pair, few=2),
]
