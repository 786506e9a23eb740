"""One judgement from its two requests: what the screen and the confirmation say together; light."""

from collections.abc import Sequence

from kernelarc_guard.protocol import Result, StageReport, WorkloadReport
from kernelarc_guard.reasons import Stage


def merged_stages(results: Sequence[Result]) -> dict[Stage, StageReport]:
    """Return each stage's latest state and the seconds all requests spent in it."""
    stages: dict[Stage, StageReport] = {}
    for result in results:
        for stage, report in result.stages.items():
            before = stages.get(stage)
            if before is None or before.state == "not evaluated":
                stages[stage] = report
            elif report.state != "not evaluated":
                seconds = before.seconds + report.seconds
                stages[stage] = StageReport(state=report.state, seconds=seconds)
    return stages


def merged_workloads(results: Sequence[Result]) -> list[WorkloadReport]:
    """Return each workload's latest report, with what only an earlier request measured."""
    merged: dict[str, WorkloadReport] = {}
    for result in results:
        for report in result.workloads:
            before = merged.get(report.uuid)
            if before is not None:
                known = before.model_dump(exclude_none=True, exclude={"state", "reason", "detail"})
                said = report.model_dump(exclude_none=True)
                if report.state == "not evaluated":
                    said |= {"state": before.state, "reason": before.reason}
                report = WorkloadReport.model_validate(known | said)
            merged[report.uuid] = report
    return list(merged.values())
