"""What is scored: times of a solution, of what it is compared with, and where they come from."""

from kernelarc_guard.model import Model
from kernelarc_guard.protocol import Result
from kernelarc_guard.ratios import Ratio


class WorkloadTimes(Model):
    """Microseconds of one workload; null where it was not measured."""

    uuid: str
    solution_us: float | None
    """Null too where it did not pass: then its score is 0."""
    reference_us: float | None = None
    record_us: float | None = None
    seed_us: float | None = None
    """Of a campaign's seed, measured beside both."""
    over_seed: Ratio | None = None
    """How many times as fast as that seed, pair by pair; null where no confirmation measured it."""


class Times(Model):
    """Times of one solution on a problem's workloads, in their order."""

    solution: str
    record: str = ""
    """What `record_us` is of; empty: nothing."""
    source: str
    """How they were measured, in one sentence."""
    workloads: list[WorkloadTimes]


def from_comparisons(
    solution: str,
    record_name: str,
    source: str,
    reference: Result | None = None,
    record: Result | None = None,
) -> Times:
    """Return a solution's times from its comparisons with the reference and with a record.

    Its own are those beside the reference where there is such a comparison.
    """
    first = reference or record
    if first is None:
        raise ValueError("expected a comparison")
    beside = {one.uuid: one for one in record.workloads} if record else {}
    rows = []
    for report in first.workloads:
        other = beside.get(report.uuid)
        ratio = None
        if other is not None and other.record_us and other.candidate_us:
            ratio = other.record_us / other.candidate_us
        mine = report.candidate_us if report.state == "passed" else None
        rows.append(
            WorkloadTimes(
                uuid=report.uuid,
                solution_us=mine,
                reference_us=report.record_us if reference else None,
                # Its ratio from the comparison with the solution, so that both lie side by side.
                record_us=mine * ratio if mine and ratio else None,
            )
        )
    return Times(solution=solution, record=record_name, source=source, workloads=rows)
