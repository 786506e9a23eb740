"""Smoke and correctness: one runner, every workload, against the float64 oracle (imports torch)."""

from collections.abc import Sequence
from dataclasses import dataclass

from kernelarc_guard.arm import Arm
from kernelarc_guard.bench import Bench, Contestant, Outputs
from kernelarc_guard.draws import Draw
from kernelarc_guard.faults import SolutionFault
from kernelarc_guard.leaving_out import left_out
from kernelarc_guard.nurseries import Nursery
from kernelarc_guard.probes import Probes, observed
from kernelarc_guard.reasons import Stage
from kernelarc_guard.report import Report
from kernelarc_guard.thrifty import probe


@dataclass(frozen=True)
class Tried:
    """A runner that has made one call, and what that call gave."""

    arm: Arm
    workload: int
    draw: Draw | None
    """None where nothing of it was kept."""
    outputs: Outputs


def smoke(bench: Bench, nursery: Nursery, candidate: Contestant, report: Report) -> Tried:
    """Load the candidate and run the smallest non-empty workload once; return its live runner.

    Values are not looked at here. Raises the report's Outcome where it fails.
    """
    sizes = {w: bench.drawer.elements(w) for w in bench.drawer.indices}
    smallest = min(sizes, key=lambda w: (sizes[w] == 0, sizes[w]))
    try:
        arm = bench.start(nursery, candidate, untimed=True)
    except SolutionFault as fault:
        stage: Stage = "build" if fault.reason == "build_failed" else "smoke"
        raise report.failure(stage, fault) from None
    kept = not bench.drawer.thrifty
    draw = bench.drawer.draw(smallest)
    try:
        with bench.backend.holding(smallest):
            arm.call(smallest, draw)
            outputs = arm.outputs(smallest)
            outputs = {name: one.clone() for name, one in outputs.items()} if kept else {}
    except SolutionFault as fault:
        arm.close()
        raise report.failure("smoke", fault) from None
    except BaseException:
        arm.close()
        raise
    return Tried(arm, smallest, draw if kept else None, outputs)


def check_workloads(
    bench: Bench, nursery: Nursery, candidate: Contestant, tried: Tried, report: Report
) -> None:
    """Probe every workload; one workload's failure loses no other's result.

    Raises the report's Outcome for the first failure once all workloads were tried.
    """
    arm: Arm | None = tried.arm
    earlier: dict[int, list[Outputs]] = {}
    draw = tried.draw
    if draw and bench.judge(tried.workload, tried.outputs, draw).ok:
        earlier[tried.workload] = [tried.outputs]
    first: SolutionFault | None = None
    slowest = (0, 0)
    try:
        for index in bench.drawer.indices:
            report.tick("correctness", f"workload {index + 1} of {len(bench.drawer.indices)}")
            try:
                # A runner is never used again after a fault.
                arm = arm or bench.start(nursery, candidate, untimed=True)
                with bench.backend.holding(index):
                    took = _probed(bench, arm, index, earlier.get(index, ()))
                slowest = max(slowest, (took, index))
            except SolutionFault as fault:
                first = first or fault
                if arm is not None:
                    arm.close()
                    arm = None
                report.workload_failed(index, fault, bench.worst.get(index))
            else:
                report.workload_passed(index, bench.worst.get(index))
        if first is None and arm is not None:
            arm.keep_scratch()  # with what every workload had compiled
        if first is None and arm is not None and not bench.drawer.thrifty:
            try:
                with bench.backend.holding(slowest[1]):
                    for seen in observed(bench, arm, *slowest):
                        report.observe(seen)
                    for seen in left_out(bench, arm, slowest[1]):
                        report.observe(seen)
            except SolutionFault as fault:
                raise report.failure("correctness", fault) from None
    finally:
        if arm is not None:
            arm.close()
    if first is not None:
        raise report.failure("correctness", first)


def _probed(bench: Bench, arm: Arm, workload: int, earlier: Sequence[Outputs]) -> int:
    """Make all calls of the stage on one workload; return nanoseconds. Raises SolutionFault."""
    if bench.drawer.thrifty:
        return probe(bench, arm, workload)
    return Probes(bench, arm, workload, earlier).run()
