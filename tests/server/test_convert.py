"""`convert`, SET:NAME and traces on the command line."""

import json
from pathlib import Path

import pytest
from command_line import Run
from problem_folders import DEFINITION, WORKLOAD, changed, write_problem

from kernelarc_guard.formats.traces import read_traces
from kernelarc_guard.problem import read_documents, read_problem
from kernelarc_guard.protocol import Schedule, WorkloadReport
from kernelarc_guard.solution import make_solution, reference_solution
from kernelarc_mcp.cli.options import chosen_problem
from kernelarc_mcp.cli.traces import write_traces
from kernelarc_mcp.evaluation import Case, refused

PLAIN = changed(DEFINITION, "axes.half", ...)


def test_a_problem_goes_into_a_set_and_comes_back_with_every_key(run: Run, tmp_path: Path) -> None:
    line = changed(WORKLOAD, "tolerance.required_match_ratio", 0.98)
    folder = write_problem(tmp_path / "p", changed(PLAIN, "odd", [1]), [line])
    (tmp_path / "k.py").write_text("def run(x, s):\n    return x * s\n")
    set_, back = str(tmp_path / "set"), str(tmp_path / "back")
    more = ("--to", "flashinfer", "--solution", str(tmp_path / "k.py"))
    status, out, err = run("convert", set_, "--problem", str(folder), *more)
    assert (status, out) == (0, f"scale: 1 workload, 1 solution written to {set_}\n")
    assert "warning: definition.json: odd: unknown key, ignored" in err
    assert "tolerance: of 1 workload kept" in err
    status, _, err = run("convert", back, "--problem", f"{set_}:scale")
    assert status == 0, err
    assert read_documents(Path(back)) == read_documents(folder)
    solution = tmp_path / "set" / "solutions" / "unknown" / "elementwise" / "scale" / "k.json"
    assert json.loads(solution.read_text())["spec"]["language"] == "python"


@pytest.mark.parametrize(
    ("problem", "says"),
    [
        ("{set}", "is a FlashInfer-Trace set; name one of its 1 definitions: "),
        ("{set}:gone", "no definition 'gone' among 1; there are scale"),
        ("{gone}:scale", "is no folder and no library problem"),
    ],
)
def test_a_definition_of_a_set_that_is_not_there_is_one_line(
    run: Run, tmp_path: Path, problem: str, says: str
) -> None:
    set_ = str(tmp_path / "set")
    folder = str(write_problem(tmp_path / "p", PLAIN))
    assert run("convert", set_, "--problem", folder, "--to", "flashinfer")[0] == 0
    named = problem.format(set=set_, gone=str(tmp_path / "gone"))
    status, out, err = run("convert", str(tmp_path / "new"), "--problem", named)
    assert (status, out) == (2, "") and says in err and err.count("\n") == 1, err


def test_what_a_form_cannot_hold_is_one_line(run: Run, tmp_path: Path) -> None:
    folder = str(write_problem(tmp_path / "p"))
    status, _, err = run("convert", str(tmp_path / "s"), "--problem", folder, "--to", "flashinfer")
    assert (status, err.count("\n")) == (2, 1)
    assert "cannot be written as flashinfer: axes.half: FlashInfer-Trace has no expr axes" in err
    status, _, err = run("convert", folder, "--problem", folder)
    assert status == 2 and "not empty; expected a new folder" in err


def test_a_tolerance_mode_of_the_command_line_replaces_the_problems(tmp_path: Path) -> None:
    folder = str(write_problem(tmp_path))
    plain, sol = (chosen_problem(folder, "workload.jsonl", mode) for mode in (None, "sol"))
    assert (plain.definition.kernelarc.tolerance, sol.definition.kernelarc.tolerance) == (
        "strict",
        "sol",
    )
    assert plain.digest != sol.digest and plain.folder == sol.folder


def test_an_evaluation_becomes_traces_that_name_the_workloads_as_their_file_does(
    tmp_path: Path,
) -> None:
    lines = [changed(WORKLOAD, "odd", 1), changed(WORKLOAD, "uuid", "w2")]
    problem = read_problem(write_problem(tmp_path / "p", PLAIN, lines))
    case = Case(
        problem=problem,
        record=reference_solution(problem.definition),
        device="cpu",
        cache_dir=str(tmp_path),
        schedule=Schedule(),
    )
    rejected = refused(case, "mine", "envelope_bad_text", "it is empty")
    timed = WorkloadReport(
        uuid="w1", axes={"n": 3}, state="passed", candidate_us=10.0, record_us=20.0
    )
    passed = rejected.model_copy(
        update={
            "verdict": "ACCEPT",
            "reason": "close_to_record",
            "stage": "timing",
            "workloads": [timed, rejected.workloads[1]],
        }
    )
    file = tmp_path / "out" / "traces.jsonl"
    assert write_traces(file, rejected, lines, case, "sol") == []
    assert write_traces(file, passed, lines, case, "flashinfer") == [
        "--traces: no trace of 1 workload that was not timed: w2"
    ]
    traces = read_traces(file, [])
    assert [(one.uuid, one.evaluation and one.evaluation.status) for one in traces] == [
        ("w1", "COMPILE_ERROR"),
        ("w2", "COMPILE_ERROR"),
        ("w1", "PASSED"),
    ]
    assert traces[0].document["workload"] == lines[0]
    result = traces[2].evaluation
    assert result is not None and result.performance is not None
    assert result.performance.speedup_factor == 2.0
    assert result.environment.hardware and "torch" in result.environment.libs
    # Another record's time is not the reference's.
    source = {"path": "k.py", "content": "def run(x, s):\n    return s * x\n"}
    other = make_solution(
        {
            "name": "other",
            "definition": "scale",
            "spec": {
                "languages": ["python"],
                "entry_point": "k.py::run",
                "destination_passing_style": False,
            },
            "sources": [source],
        }
    )
    moved = case.model_copy(update={"record": other})
    write_traces(file, passed, lines, moved, "sol")
    result = read_traces(file, [])[-1].evaluation
    assert result is not None and result.performance is not None
    assert result.performance.reference_latency_ms == 0.0
