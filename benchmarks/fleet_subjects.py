"""Kernels whose true gains are known, for devices that are compared with each other.

On a GPU: kernels of the A/A study (gpu_subjects) with delays planted inside. On a CPU with scripted guards: plans.
"""

from dataclasses import dataclass
from typing import Final

from benchmarks.fleet_candidates import BANDWIDTH, MATRIX, problem_of
from benchmarks.gpu_subjects import Subject, subjects
from kernelarc_guard.cuda import driver
from kernelarc_guard.problem import Problem
from kernelarc_guard.solution import Solution, SourceFile, make_solution

RECORD_DELAY: Final = 25.0
"""Percent that the record is delayed, so that faster kernels are known too."""
DELAYS: Final[dict[str, float]] = {
    "much faster": 0.0,
    "faster": 10.0,
    "equal": RECORD_DELAY,
    "slower": 40.0,
    "much slower": 100.0,
}
"""Case -> delay of its candidate, in percent of the plain kernel."""
WRONG: Final = "wrong"
CASES: Final = (*DELAYS, WRONG)
_SPOILED: Final = {
    "rmsnorm-large": ("in[i] * scale * weight[i]", "in[i] * scale * weight[i] * 1.1f"),
    "rmsnorm-small": ("in[i] * scale * weight[i]", "in[i] * scale * weight[i] * 1.1f"),
    "gemm": ("fill_fragment(sums[i][j], 0.0f)", "fill_fragment(sums[i][j], 8.0f)"),
}
_CLOCK_RATE: Final = 13
"""CU_DEVICE_ATTRIBUTE_CLOCK_RATE, in kHz."""


@dataclass(frozen=True)
class Known:
    """One kernel on one workload, with others whose gain over it is known."""

    name: str
    bound_by: str
    problem: Problem
    plain: Solution
    subject: Subject | None
    """None: plans for scripted guards."""

    def delayed(self, percent: float, cycles_of_percent: float) -> Solution:
        """Return the kernel with a delay of so many percent of its plain time."""
        if self.subject is not None:
            return self.subject.planted(round(percent * cycles_of_percent))
        return _plan(self.problem, f"gain:{_gain(percent)}")

    def spoiled(self) -> Solution:
        """Return a kernel that is wrong."""
        if self.subject is None:
            return _plan(self.problem, "wrong")
        old, new = _SPOILED[self.name]
        whole = self.subject.planted(0)
        (source,) = whole.sources
        if source.content.count(old) != 1:
            raise ValueError(f"{self.name}: {old!r}: expected once in the kernel")
        spoiled = SourceFile(path=source.path, content=source.content.replace(old, new))
        return whole.model_copy(update={"name": f"{whole.name}_wrong", "sources": [spoiled]})


def known_kernels(on_cpu: bool, names: list[str]) -> list[Known]:
    """Return the kernels of these names (all where there are none), in the order of a report."""
    if on_cpu:
        whole = {name: problem_of(name, True) for name in (BANDWIDTH, MATRIX)}
        problems = {
            name: one.model_copy(update={"workloads": one.workloads[:1]})
            for name, one in whole.items()
        }
        all_of = [
            Known(name, "nothing", problem, _plan(problem, "gain:0"), None)
            for name, problem in problems.items()
        ]
    else:
        all_of = [
            Known(one.name, one.bound_by, one.problem, one.planted(0), one)
            for one in subjects().values()
        ]
    return [one for one in all_of if not names or one.name in names]


def true_gain(case: str) -> float | None:
    """Return how much faster (percent, negative: slower) a case is than the record; None: it is wrong."""
    return None if case == WRONG else _gain(DELAYS[case])


def cycles_of_percent(median_us: float, number: int) -> float:
    """Return the cycles of GPU `number` that a percent of a kernel's time has; opens the driver."""
    driver.device_count()
    return median_us / 100 * driver.attribute(number, _CLOCK_RATE) / 1e3


def _gain(delay: float) -> float:
    return round(100 * ((100 + RECORD_DELAY) / (100 + delay) - 1), 2)


def _plan(problem: Problem, plan: str) -> Solution:
    definition = problem.definition
    spec = {
        "languages": ["pytorch"],
        "entry_point": "k.py::run",
        "destination_passing_style": False,
    }
    sources = [{"path": "k.py", "content": f"{definition.reference}\n\nPLAN = '{plan}'\n"}]
    fields = {"name": "k", "definition": definition.name, "spec": spec, "sources": sources}
    return make_solution(fields)
