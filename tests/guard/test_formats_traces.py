"""Traces of the field's benchmarks: read, written, and made of our own results."""

import json
import sys
from pathlib import Path
from typing import Any, get_args

import pytest
from problem_folders import changed

from kernelarc_guard.formats.results import STATUSES, status_of, traces_of
from kernelarc_guard.formats.traces import Environment, Form, Status, parse_trace, read_traces
from kernelarc_guard.protocol import WorkloadReport
from kernelarc_guard.reasons import REASONS

TRACE: dict[str, Any] = {
    "definition": "scale",
    "solution": "mine",
    "workload": {"uuid": "w1", "axes": {"n": 3}, "inputs": {"x": {"type": "random"}}},
    "evaluation": {
        "status": "PASSED",
        "log": "",
        "correctness": {"max_relative_error": 0.1, "max_absolute_error": 0.2},
        "performance": {
            "latency_ms": 0.5,
            "reference_latency_ms": 1.0,
            "speedup_factor": 2.0,
        },
        "environment": {"hardware": "NVIDIA_H100", "libs": {"torch": "2.9.0"}},
        "timestamp": "2026-01-01T00:00:00",
    },
}
HERE = Environment(hardware="CPU", libs={})
DOCUMENTS = {uuid: {"uuid": uuid, "axes": {"n": 1}, "odd": 1} for uuid in ("a", "b", "c")}


def _report(uuid: str, state: str, **more: Any) -> WorkloadReport:
    return WorkloadReport.model_validate({"uuid": uuid, "axes": {"n": 1}, "state": state, **more})


def _made(reports: list[WorkloadReport], **more: Any) -> tuple[list[dict[str, Any]], list[str]]:
    given = {"failed": None, "reference": True, "environment": HERE, **more}
    return traces_of("scale", "mine", DOCUMENTS, reports, **given)


def test_a_trace_is_read_and_its_line_kept(tmp_path: Path) -> None:
    line = changed(changed(TRACE, "odd", 1), "evaluation.correctness.odd", 2)
    workload = {"definition": "scale", "workload": TRACE["workload"], "solution": None}
    file = tmp_path / "traces.jsonl"
    file.write_text(f"{json.dumps(line)}\n\n{json.dumps(workload)}\n")
    warnings: list[str] = []
    first, second = read_traces(file, warnings)
    assert (first.definition, first.uuid, first.solution, first.document) == (
        "scale",
        "w1",
        "mine",
        line,
    )
    assert first.evaluation is not None and first.evaluation.performance is not None
    assert first.evaluation.performance.speedup_factor == 2.0
    assert (second.solution, second.evaluation) == (None, None)
    assert warnings == [
        "traces.jsonl:1: odd: unknown key, ignored",
        "traces.jsonl:1: evaluation.correctness.odd: unknown key, ignored",
    ]


@pytest.mark.parametrize("status", get_args(Status))
def test_every_status_is_read(status: str) -> None:
    line = changed(TRACE, "evaluation.status", status)
    if status != "PASSED":
        line = changed(line, "evaluation.performance", None)
    if status not in ("PASSED", "INCORRECT_NUMERICAL"):
        line = changed(line, "evaluation.correctness", None)
    evaluation = parse_trace(line, "t:1", []).evaluation
    assert evaluation is not None and evaluation.status == status


@pytest.mark.parametrize(
    ("value", "flags"),
    [("Infinity", (False, True)), ("-Infinity", (False, True)), ("NaN", (True, False))],
)
def test_errors_written_as_text_become_flags(value: str, flags: tuple[bool, bool]) -> None:
    line = changed(TRACE, "evaluation.status", "INCORRECT_NUMERICAL")
    line = changed(changed(line, "evaluation.performance", None), "evaluation.correctness", {})
    line["evaluation"]["correctness"] = {"max_absolute_error": value, "max_relative_error": 0.5}
    evaluation = parse_trace(line, "t:1", []).evaluation
    assert evaluation is not None and evaluation.correctness is not None
    correctness = evaluation.correctness
    assert (correctness.max_absolute_error, correctness.max_relative_error) == (0.0, 0.5)
    assert (correctness.has_nan, correctness.has_inf) == flags


@pytest.mark.parametrize(
    ("path", "value", "says"),
    [
        ("definition", 3, "t:1: definition: expected the name of a definition"),
        ("workload", None, "t:1: workload: expected an object with a uuid"),
        ("workload.uuid", 3, "t:1: workload: expected an object with a uuid"),
        ("solution", 3, "t:1: solution: expected a name or null"),
        ("solution", None, "t:1: evaluation: expected one exactly where there is a solution"),
        ("evaluation", None, "t:1: evaluation: expected one exactly where there is a solution"),
        ("evaluation", [], "t:1: evaluation: "),
        ("evaluation.status", "FINE", "t:1: evaluation: status: "),
        ("evaluation.status", ..., "t:1: evaluation: status: Field required"),
        ("evaluation.timestamp", "", "t:1: evaluation: timestamp: "),
        ("evaluation.performance", None, "performance: expected one with status PASSED"),
        ("evaluation.correctness", None, "correctness: expected one with status PASSED"),
        ("evaluation.status", "TIMEOUT", "correctness: expected none with status TIMEOUT"),
        ("evaluation.performance.latency_ms", -1, "evaluation: performance.latency_ms: "),
        ("evaluation.correctness.max_absolute_error", "big", "correctness.max_absolute_error: "),
        ("evaluation.environment", {}, "evaluation: environment.hardware: Field required"),
    ],
)
def test_a_bad_trace_is_refused_in_one_line(path: str, value: Any, says: str) -> None:
    with pytest.raises(ValueError) as refused:
        parse_trace(changed(TRACE, path, value), "t:1", [])
    assert says in str(refused.value) and "\n" not in str(refused.value)


def test_every_failure_has_a_status() -> None:
    failures = {code for code, one in REASONS.items() if one.verdicts & {"REJECT", "REVERT"}}
    judged = failures - {"duplicate", "draft_not_new", "cancelled", "guard_lost"}
    slow = {"slower", "not_proven_close", "workload_regressed"}
    assert {status_of(code) for code in judged - slow} <= set(get_args(Status))
    assert set(STATUSES) <= judged - slow


def test_our_results_become_traces_that_are_read_again() -> None:
    reports = [
        _report("a", "passed", candidate_us=500.0, record_us=1000.0, max_absolute_error=0.5),
        _report("b", "failed", reason="wrong_nonfinite", detail="NaN", max_relative_error=0.25),
        _report("c", "failed", reason="tampering", detail="it was seen"),
    ]
    for form in get_args(Form):
        traces, left = _made(reports, form=form)
        assert left == []
        read = [parse_trace(trace, "t:1", []) for trace in traces]
        assert [trace.document["workload"] for trace in read] == list(DOCUMENTS.values())
        results = [trace.evaluation for trace in read]
        assert all(one is not None for one in results)
        assert [one and one.status for one in results] == [
            "PASSED",
            "INCORRECT_NUMERICAL",
            "REWARD_HACK" if form == "sol" else "RUNTIME_ERROR",
        ]
        assert results[0] is not None and results[0].performance is not None
        performance = results[0].performance
        assert (performance.latency_ms, performance.speedup_factor) == (0.5, 2.0)
        wrong = traces[1]["evaluation"]["correctness"]
        assert wrong["max_relative_error"] == (0.25 if form == "sol" else "NaN")
        assert ("has_nan" in wrong) == (form == "sol")
        assert results[2] is not None and "tampering: it was seen" in results[2].log
        json.dumps(traces, allow_nan=False)


def test_a_wrong_answer_whose_error_is_no_number_has_the_largest_and_not_none() -> None:
    report = _report("a", "failed", reason="wrong_result", detail="infinite at [0, 0]")
    ((trace,), _) = _made([report])
    assert trace["evaluation"]["correctness"]["max_absolute_error"] == sys.float_info.max


def test_the_reference_time_is_stated_only_where_the_record_was_the_reference() -> None:
    timed = [_report("a", "passed", candidate_us=500.0, record_us=1000.0)]
    ((trace,), _) = _made(timed, reference=False)
    assert trace["evaluation"]["performance"] == {
        "latency_ms": 0.5,
        "reference_latency_ms": 0.0,
        "speedup_factor": 0.0,
    }


def test_a_solution_that_never_ran_failed_on_every_workload() -> None:
    reports = [_report(uuid, "not evaluated") for uuid in "abc"]
    traces, left = _made(reports, failed=("build_failed", "build", "no such header"))
    assert [one["evaluation"]["status"] for one in traces] == ["COMPILE_ERROR"] * 3
    assert traces[0]["evaluation"]["log"] == "build_failed (build): no such header"
    assert left == []


def test_a_workload_that_was_not_timed_has_no_trace() -> None:
    assert _made([_report("a", "passed"), _report("b", "not evaluated")]) == ([], ["a", "b"])
