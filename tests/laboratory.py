"""Runners of small Python solutions in a real nursery, without the stages around them."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any, Self

from guard_process import problem, python

from kernelarc_guard.arm import Arm
from kernelarc_guard.build import build
from kernelarc_guard.confinement import Kind
from kernelarc_guard.draws import Drawer
from kernelarc_guard.faults import SolutionFault
from kernelarc_guard.keeper import Nursery
from kernelarc_guard.problem import Problem
from kernelarc_guard.protocol import Schedule
from kernelarc_guard.sandbox import Sandbox, find_sandbox
from kernelarc_guard.solution import Solution

SCHEDULE = Schedule(start_seconds=20, call_seconds=5, evict_bytes=0, memory_bytes=4 << 30)
ATTEMPTS = """import json

RESULTS = {}

def attempt(name, step):
    try:
        value = step()
        RESULTS[name] = "worked: " + repr(value)[:200]
    except BaseException as error:
        number = getattr(error, "errno", None)
        RESULTS[name] = f"errno {number}" if number else type(error).__name__

def tell():
    raise RuntimeError("<<" + json.dumps(RESULTS) + ">>")
"""


def sandbox_of(kind: Kind) -> Sandbox:
    """Return this machine's sandbox, or what is left of it without bubblewrap."""
    found = find_sandbox()
    assert found.kind == "bubblewrap+landlock", found.missing
    if kind == found.kind:
        return found
    return replace(found, kind=kind, bubblewrap="", missing="not used in this test")


class Laboratory:
    """One nursery and what its runners need."""

    def __init__(self, folder: Path, kind: Kind = "bubblewrap+landlock") -> None:
        """Start the nursery; its files are in `folder`."""
        self.sandbox = sandbox_of(kind)
        self.folder = folder
        self.problem = Problem.model_validate(problem())
        self.drawer = Drawer(self.problem, 0)
        self.notes: list[str] = []
        self._log = (folder / "log").open("wb")
        self.nursery = Nursery(self.sandbox, folder / "nursery", self._log)
        self.nursery.wait_ready()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if not self.nursery.lost:
            self.nursery.close()
        self._log.close()

    def start(self, source: str, slot: int = 1, **schedule: Any) -> Arm:
        """Fork a runner of a value-returning solution; raises SolutionFault."""
        return self.run(Solution.model_validate(python(source)), slot, **schedule)

    def run(self, solution: Solution, slot: int = 1, **schedule: Any) -> Arm:
        """Build any solution and fork a runner of it; raises SolutionFault."""
        built = build(
            solution, self.folder / "cache", seconds=60, memory_bytes=4 << 30, sandbox=self.sandbox
        )
        chosen = SCHEDULE.model_copy(update=schedule)
        return Arm(self.nursery, solution, built, self.drawer, chosen, slot, note=self.notes.append)

    def call(self, arm: Arm) -> int:
        """Call a runner on the smallest workload."""
        return arm.call(0, self.drawer.draw(0))

    def fault(self, source: str, **schedule: Any) -> SolutionFault:
        """Start a solution and call it a few times; return how it failed."""
        try:
            arm = self.start(source, **schedule)
        except SolutionFault as fault:
            return fault
        try:
            for _ in range(3):
                self.call(arm)
        except SolutionFault as fault:
            return fault
        finally:
            arm.close()
        raise AssertionError("it did not fail")

    def told(self, source: str) -> dict[str, str]:
        """Return what a solution's attempts came to; it ends with `tell()`."""
        return told(self.fault(ATTEMPTS + source))


def told(fault: SolutionFault) -> dict[str, str]:
    """Return what `tell()` raised."""
    assert "<<" in fault.detail, (fault.reason, fault.detail)
    found: dict[str, str] = json.loads(fault.detail.split("<<")[1].split(">>")[0])
    return found
