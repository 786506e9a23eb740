"""Smoke and correctness: one runner, every workload, against the float64 oracle (imports torch)."""

from kernelarc_guard.arm import Arm
from kernelarc_guard.bench import Bench, Contestant
from kernelarc_guard.faults import SolutionFault
from kernelarc_guard.nurseries import Nursery
from kernelarc_guard.probes import Probes, observed
from kernelarc_guard.reasons import Stage
from kernelarc_guard.report import Report


def smoke(bench: Bench, nursery: Nursery, candidate: Contestant, report: Report) -> Arm:
    """Load the candidate and run the smallest non-empty workload once; return its live runner.

    Values are not looked at here. Raises the report's Outcome where it fails.
    """
    sizes = {w: bench.drawer.elements(w) for w in bench.drawer.indices}
    smallest = min(sizes, key=lambda w: (sizes[w] == 0, sizes[w]))
    try:
        arm = bench.start(nursery, candidate)
    except SolutionFault as fault:
        stage: Stage = "build" if fault.reason == "build_failed" else "smoke"
        raise report.failure(stage, fault) from None
    try:
        arm.call(smallest, bench.drawer.draw(smallest))
        arm.outputs(smallest)
    except SolutionFault as fault:
        arm.close()
        raise report.failure("smoke", fault) from None
    return arm


def check_workloads(
    bench: Bench, nursery: Nursery, candidate: Contestant, arm: Arm | None, report: Report
) -> None:
    """Probe every workload; one workload's failure loses no other's result.

    Raises the report's Outcome for the first failure once all workloads were tried.
    """
    first: SolutionFault | None = None
    slowest = (0, 0)
    try:
        for index in bench.drawer.indices:
            report.tick("correctness", f"workload {index + 1} of {len(bench.drawer.indices)}")
            try:
                # A runner is never used again after a fault.
                arm = arm or bench.start(nursery, candidate)
                slowest = max(slowest, (Probes(bench, arm, index).run(), index))
            except SolutionFault as fault:
                first = first or fault
                if arm is not None:
                    arm.close()
                    arm = None
                report.workload_failed(index, fault, bench.worst.get(index))
            else:
                report.workload_passed(index, bench.worst.get(index))
        if first is None and arm is not None:
            try:
                for seen in observed(bench, arm, *slowest):
                    report.observe(seen)
            except SolutionFault as fault:
                raise report.failure("correctness", fault) from None
    finally:
        if arm is not None:
            arm.close()
    if first is not None:
        raise report.failure("correctness", first)
