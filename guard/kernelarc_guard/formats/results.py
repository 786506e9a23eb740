"""Our results as traces of the field's benchmarks; light."""

import sys
from collections.abc import Mapping, Sequence
from typing import Final

from kernelarc_guard.formats.documents import Document
from kernelarc_guard.formats.traces import (
    Correctness,
    Environment,
    Evaluation,
    Form,
    Performance,
    Status,
    in_range,
    now,
    trace_document,
)
from kernelarc_guard.protocol import WorkloadReport
from kernelarc_guard.reasons import Stage

STATUSES: Final[dict[str, Status]] = {
    "build_failed": "COMPILE_ERROR",
    "policy_syntax": "COMPILE_ERROR",
    "policy_forbidden": "REWARD_HACK",
    "timeout": "TIMEOUT",
    "crashed": "RUNTIME_ERROR",
    "raised": "RUNTIME_ERROR",
    "limit_passed": "RUNTIME_ERROR",
    "bad_output_count": "INCORRECT_SHAPE",
    "bad_output_shape": "INCORRECT_SHAPE",
    "bad_output_type": "INCORRECT_DTYPE",
    "bad_output_dtype": "INCORRECT_DTYPE",
    "output_alias": "REWARD_HACK",
    "out_of_bounds_write": "RUNTIME_ERROR",
    "input_modified": "REWARD_HACK",
    "wrong_result": "INCORRECT_NUMERICAL",
    "wrong_nonfinite": "INCORRECT_NUMERICAL",
    "stale_output": "REWARD_HACK",
    "late_write": "REWARD_HACK",
    "not_deterministic": "INCORRECT_NUMERICAL",
    "extra_process": "REWARD_HACK",
    "too_many_threads": "REWARD_HACK",
    "tampering": "REWARD_HACK",
    "below_physical_limit": "REWARD_HACK",
}
"""Reason codes of failures as statuses of traces; an envelope's are COMPILE_ERROR."""


def status_of(reason: str) -> Status:
    """Return the status of a failure by its reason code."""
    return "COMPILE_ERROR" if reason.startswith("envelope_") else STATUSES[reason]


def traces_of(
    definition: str,
    solution: str,
    workloads: Mapping[str, Document],
    reports: Sequence[WorkloadReport],
    *,
    failed: tuple[str, Stage, str] | None,
    reference: bool,
    environment: Environment,
    form: Form = "sol",
    at: str = "",
) -> tuple[list[Document], list[str]]:
    """Return a trace for each report that has one, and the uuids of the workloads that have none.

    `workloads` are their documents by uuid. `failed` is the reason, stage and detail of a solution
    that failed before any workload did. `reference` says that the record was the reference, `at`
    when it was judged (ISO 8601; empty: now). A workload that passed and was not timed has no trace:
    a trace that passed states a time.
    """
    traces: list[Document] = []
    left: list[str] = []
    at = at or now()
    for report in reports:
        evaluation = _evaluation(report, failed, reference, environment, at)
        if evaluation is None:
            left.append(report.uuid)
        else:
            document = workloads[report.uuid]
            traces.append(trace_document(definition, document, solution, evaluation, form))
    return traces, left


def _evaluation(
    report: WorkloadReport,
    failed: tuple[str, Stage, str] | None,
    reference: bool,
    environment: Environment,
    at: str,
) -> Evaluation | None:
    # An error that is no number is none of a wrong answer's: the largest number says so.
    beyond = sys.float_info.max if report.state == "failed" else 0.0
    compared = Correctness(
        max_relative_error=in_range(report.max_relative_error, beyond),
        max_absolute_error=in_range(report.max_absolute_error, beyond),
    )
    if report.state == "passed" and report.candidate_us is not None:
        record = report.record_us if reference and report.record_us is not None else 0.0
        return Evaluation(
            status="PASSED",
            environment=environment,
            timestamp=at,
            correctness=compared,
            performance=Performance(
                latency_ms=report.candidate_us / 1e3,
                reference_latency_ms=record / 1e3,
                speedup_factor=record / report.candidate_us if report.candidate_us else 0.0,
            ),
        )
    if report.state == "failed" and report.reason is not None:
        reason, log = report.reason, f"{report.reason}: {report.detail}"
    elif failed is not None and report.state == "not evaluated":
        reason, log = failed[0], f"{failed[0]} ({failed[1]}): {failed[2]}"
    else:
        return None
    status = status_of(reason)
    odd = reason == "wrong_nonfinite"
    return Evaluation(
        status=status,
        environment=environment,
        timestamp=at,
        log=log,
        correctness=compared.model_copy(update={"has_inf": odd, "has_nan": odd})
        if status == "INCORRECT_NUMERICAL"
        else None,
    )
