"""Outputs that a solution may leave out: always or never, and what is given is checked."""

from pathlib import Path
from typing import Any

import pytest
from guard_process import PARAMETERS, Guard
from problem_folders import write_problem

from kernelarc_guard.bench import Bench
from kernelarc_guard.check_problem import check_problem
from kernelarc_guard.definition import Definition
from kernelarc_guard.draws import Drawer
from kernelarc_guard.faults import SolutionFault
from kernelarc_guard.oracle import Oracle
from kernelarc_guard.output_counts import OutputCounts
from kernelarc_guard.problem import Problem, ProblemError, read_problem
from kernelarc_guard.protocol import Schedule
from kernelarc_guard.solution import reference_solution
from kernelarc_guard.trials import Trials

REFERENCE = "import torch\ndef run(x):\n    return torch.sin(x), x.logsumexp(-1)\n"
DEFINITION: dict[str, Any] = {
    "name": "sines_and_sums",
    "axes": {"r": {"type": "var"}, "c": {"type": "const", "value": 64}},
    "inputs": {"x": {"shape": ["r", "c"], "dtype": "float32"}},
    "outputs": {
        "y": {"shape": ["r", "c"], "dtype": "float32"},
        "lse": {"shape": ["r"], "dtype": "float32", "optional": True},
    },
    "reference": REFERENCE,
}
WORKLOAD = {"uuid": "w", "axes": {"r": 40}, "tolerance": {"max_atol": 1e-4, "max_rtol": 1e-4}}
PROBLEM = {"definition": DEFINITION, "workloads": [WORKLOAD]}
BOTH, ONE = "torch.sin(x), x.logsumexp(-1)", "torch.sin(x)"


def _solution(body: str, before: str = "", passing: bool = False) -> dict[str, Any]:
    parameters = "x, y, lse" if passing else "x"
    source = f"import os\nimport torch\n{before}\ndef run({parameters}):\n{body}\n"
    return {
        "name": "test",
        "definition": DEFINITION["name"],
        "spec": {
            "languages": ["pytorch"],
            "entry_point": "kernel.py::run",
            "destination_passing_style": passing,
        },
        "sources": [{"path": "kernel.py", "content": source}],
    }


def _screened(guard: Guard, candidate: dict[str, Any], **request: Any) -> tuple[str | None, str]:
    problem = Problem.model_validate(PROBLEM)
    asked = {
        "problem": PROBLEM,
        "record": reference_solution(problem.definition).model_dump(),
        "candidate": candidate,
        "correctness_only": True,
    } | request
    result = guard.ask("screen", **asked)
    return result.reason, result.detail


@pytest.mark.parametrize(
    "body", [f"    return {ONE}", f"    return ({ONE},)", f"    return {BOTH}"]
)
def test_an_optional_output_may_come_or_not(guard: Guard, body: str) -> None:
    assert _screened(guard, _solution(body)) == (None, "")


def test_an_optional_output_that_comes_is_checked(guard: Guard) -> None:
    reason, detail = _screened(guard, _solution(f"    return {ONE}, x.sum(-1)"))
    assert reason == "wrong_result" and "output lse" in detail


def test_a_solution_that_fills_outputs_fills_the_optional_one_too(guard: Guard) -> None:
    body = "    y.copy_(torch.sin(x))"
    reason, detail = _screened(guard, _solution(body, passing=True))
    assert reason == "wrong_nonfinite" and "output lse" in detail
    assert _screened(guard, _solution(f"{body}\n    lse.copy_(x.logsumexp(-1))", passing=True)) == (
        None,
        "",
    )


def test_too_few_or_too_many_outputs_are_told_what_is_allowed(guard: Guard) -> None:
    for body in ("    return ()", f"    return {BOTH}, 1"):
        reason, detail = _screened(guard, _solution(body))
        assert reason == "bad_output_count"
        assert detail.endswith("expected 1 to 2 (lse optional)")


CHANGING = {
    "in one call of many": ("calls = 0", "    global calls\n    calls += 1\n    full = calls != 9"),
    "in timed processes only": (
        'full = not os.path.exists("mark")\nopen("mark", "w").write("x")',
        "",
    ),
}


@pytest.mark.parametrize("when", CHANGING)
def test_an_optional_output_that_is_left_out_now_and_then_is_refused(
    guard: Guard, when: str
) -> None:
    before, inside = CHANGING[when]
    body = f"{inside}\n    if full:\n        return {BOTH}\n    return {ONE}"
    reason, detail = _screened(
        guard, _solution(body, before), correctness_only=False, parameters=PARAMETERS
    )
    assert reason == "bad_output_count"
    assert "returned 1 outputs where it has returned 2 before" in detail


def test_a_guard_remembers_for_its_life_what_a_solution_gave() -> None:
    problem = Problem.model_validate(PROBLEM)
    trials, specs = Trials(), {"y": 1, "lse": 2}
    screen = OutputCounts(problem.definition, trials.given(problem))
    assert screen.given(specs, 2, "digest", 0) == specs
    assert screen.given(specs, 1, "of another", 0) == {"y": 1}
    confirmation = OutputCounts(problem.definition, trials.given(problem))
    with pytest.raises(SolutionFault, match="returned 1 outputs where it has returned 2 before"):
        confirmation.given(specs, 1, "digest", 0)


def _bench() -> Bench:
    problem = Problem.model_validate(PROBLEM)
    return Bench(problem, Schedule(), Oracle(problem), Drawer(problem, 0), lambda seen: None)


def test_arms_agree_only_on_what_both_have_given() -> None:
    bench = _bench()
    draw = bench.drawer.draw(0)
    both = bench.oracle.reference_outputs(bench.problem.workloads[0], draw.inputs)
    one = {"y": both["y"]}
    bench.check(0, one, draw, earlier=[one])
    assert bench.agree(0, one, both) and bench.agree(0, one, one)
    assert not bench.agree(0, both, one), "its lse would be compared with nothing"
    with pytest.raises(SolutionFault, match="output y at"):
        bench.check(0, {"y": one["y"] + 1}, draw, earlier=[one])
    with pytest.raises(KeyError):
        bench.check(0, {"lse": both["lse"]}, draw)


def test_a_problem_whose_required_output_may_be_zero_is_refused(tmp_path: Path) -> None:
    reference = "import torch\ndef run(x):\n    return x * 1e-6, x.logsumexp(-1)\n"
    folder = write_problem(tmp_path, {**DEFINITION, "reference": reference}, [WORKLOAD])
    with pytest.raises(ProblemError, match="accepts outputs that are all zero"):
        check_problem(read_problem(folder))
    constant = "import torch\ndef run(x):\n    return torch.ones_like(x), x.logsumexp(-1)\n"
    folder = write_problem(tmp_path, {**DEFINITION, "reference": constant}, [WORKLOAD])
    with pytest.raises(ProblemError, match="other inputs never change the outputs"):
        check_problem(read_problem(folder))


def test_only_last_outputs_can_be_optional_and_others_are_named(tmp_path: Path) -> None:
    outputs = dict(reversed(DEFINITION["outputs"].items()))
    reference = "import torch\ndef run(x):\n    return x.logsumexp(-1), torch.sin(x)\n"
    inputs = {"x": {**DEFINITION["inputs"]["x"], "optional": True}}
    told = {**DEFINITION, "outputs": outputs, "inputs": inputs, "reference": reference}
    problem = read_problem(write_problem(tmp_path, told, [WORKLOAD]))
    assert problem.definition.required_outputs == ["lse", "y"]
    assert [one.split(":")[1] for one in problem.warnings] == [
        " inputs.x.optional",
        " outputs.lse.optional",
    ]


def test_the_benchmarks_own_optional_output_needs_no_key() -> None:
    outputs = {
        "output": {"shape": ["r", "c"], "dtype": "bfloat16"},
        "lse": DEFINITION["outputs"]["lse"],
    }
    del (plain := dict(outputs["lse"]))["optional"]
    name = "dsa_sparse_attention_h16_ckv512_kpe64_topk2048_ps64"
    told = {**DEFINITION, "name": name, "outputs": {**outputs, "lse": plain}}
    assert Definition.model_validate(told).required_outputs == ["output"]
    other = Definition.model_validate({**told, "name": "attention"})
    assert other.required_outputs == ["output", "lse"]


def test_problems_without_optional_outputs_keep_their_digest() -> None:
    plain = {
        **DEFINITION,
        "outputs": {"y": DEFINITION["outputs"]["y"]},
        "reference": "def run(x): return x",
    }
    digest = Problem.model_validate({"definition": plain, "workloads": [WORKLOAD]}).digest
    assert digest.startswith("c816ef48329d4b4b")
