"""Answers where equality is the wrong test: chosen places, samples, and forms of a problem's own."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from problem_folders import write_problem

from kernelarc_guard.bench import Bench
from kernelarc_guard.check_problem import check_problem
from kernelarc_guard.draws import Draw, Drawer
from kernelarc_guard.faults import SolutionFault
from kernelarc_guard.inputs import Value, make_inputs
from kernelarc_guard.oracle import Oracle
from kernelarc_guard.problem import Problem, ProblemError, read_problem
from kernelarc_guard.protocol import Schedule
from kernelarc_guard.sampling import LEAST, Pool, farthest

Answer = dict[str, torch.Tensor]
TIED = """
import torch
def run(x):
    values, indices = torch.topk(x, 4, dim=-1)
    return values, indices
def draw(axes, device):
    return {"x": torch.randint(0, 20, (axes["rows"], 64), device=device).float()}
"""
TOPK: dict[str, Any] = {
    "name": "topk_tied",
    "op_type": "topk",
    "axes": {"rows": {"type": "var"}},
    "custom_inputs_entrypoint": "draw",
    "inputs": {"x": {"shape": ["rows", "64"], "dtype": "float32"}},
    "outputs": {
        "values": {"shape": ["rows", "4"], "dtype": "float32"},
        "indices": {"shape": ["rows", "4"], "dtype": "int64"},
    },
    "reference": TIED,
    "kernelarc": {
        "compared_as": {"kind": "topk", "indices": "indices", "of": "x", "values": "values"}
    },
}
SAMPLING: dict[str, Any] = {
    "name": "top_k_sampling_from_probs_v32",
    "op_type": "sampling",
    "axes": {"batch": {"type": "var"}, "vocabulary": {"type": "const", "value": 32}},
    "inputs": {
        "probs": {"shape": ["batch", "vocabulary"], "dtype": "float32"},
        "top_k": {"shape": ["batch"], "dtype": "int32"},
    },
    "outputs": {"samples": {"shape": ["batch"], "dtype": "int64"}},
    "reference": """
import torch
def run(probs, top_k):
    samples = torch.empty(probs.shape[0], dtype=torch.int64, device=probs.device)
    for row in range(probs.shape[0]):
        p, k = probs[row], int(top_k[row])
        if 0 < k < p.shape[0]:
            p = torch.where(p >= torch.topk(p, k).values[-1], p, 0)
        samples[row] = torch.multinomial(p / p.sum(), 1)
    return samples
""",
}


def _problem(folder: Path, definition: dict[str, Any], **axes: int) -> Problem:
    inputs = {n: {"type": "custom"} for n in definition["inputs"]}
    told = inputs if "custom_inputs_entrypoint" in definition else {}
    line = {"uuid": "w", "axes": axes, "inputs": told, "tolerance": {"max_atol": 1e-6}}
    return read_problem(write_problem(folder, definition, [line]))


def _bench(problem: Problem) -> Bench:
    drawer = Drawer(problem, 0)
    return Bench(problem, Schedule(), Oracle(problem), drawer, lambda seen: None)


def _right(bench: Bench, draw: Draw) -> Answer:
    return bench.oracle.reference_outputs(bench.problem.workloads[0], draw.inputs)


def _x(draw: Draw) -> torch.Tensor:
    return draw.tensors["x"]


def test_any_of_equal_scores_may_be_chosen(tmp_path: Path) -> None:
    problem = _problem(tmp_path, TOPK, rows=64)
    assert check_problem(problem) == []
    bench = _bench(problem)
    draw = bench.drawer.draw(0)
    # A stable sort chooses the first of equal ones; the reference does not.
    values, indices = _x(draw).sort(dim=-1, descending=True, stable=True)
    chosen = {"values": values[:, :4].contiguous(), "indices": indices[:, :4].contiguous()}
    assert not torch.equal(chosen["indices"], _right(bench, draw)["indices"])
    bench.check(0, chosen, draw)
    assert bench.worst[0].ok and bench.worst[0].inputs == "own"
    bench.check(0, chosen, replace(draw, kind="scaled values"))
    assert bench.worst[0].inputs == "scaled values"


def _swapped(answer: Answer) -> Answer:
    return {**answer, "indices": answer["indices"].roll(1, 0)}


def _doubled(answer: Answer) -> Answer:
    indices = answer["indices"].clone()
    indices[:, 1] = indices[:, 0]
    return {**answer, "indices": indices}


def _outside(answer: Answer) -> Answer:
    return {**answer, "indices": answer["indices"] + 10_000}


def _negative(answer: Answer) -> Answer:
    return {**answer, "indices": answer["indices"] - 64}


def _other_values(answer: Answer) -> Answer:
    return {**answer, "values": answer["values"] * 0.5}


@pytest.mark.parametrize("spoil", [_swapped, _doubled, _outside, _negative, _other_values])
def test_places_that_are_not_those_of_the_largest_are_wrong(tmp_path: Path, spoil: Any) -> None:
    bench = _bench(_problem(tmp_path, TOPK, rows=32))
    draw = bench.drawer.draw(0)
    with pytest.raises(SolutionFault) as fault:
        bench.check(0, spoil(_right(bench, draw)), draw)
    assert fault.value.reason == "wrong_result"


@pytest.mark.parametrize("ordered", [True, False])
def test_the_order_matters_only_where_the_problem_says_so(tmp_path: Path, ordered: bool) -> None:
    keys = {"compared_as": {**TOPK["kernelarc"]["compared_as"], "ordered": ordered}}
    bench = _bench(_problem(tmp_path, {**TOPK, "kernelarc": keys}, rows=64))
    draw = bench.drawer.draw(0)
    right = _right(bench, draw)
    backwards = {name: one.flip(-1).contiguous() for name, one in right.items()}
    bench.check(0, right, draw)
    assert bench.judge(0, backwards, draw).ok is not ordered
    # In no order may a value be another place's.
    mixed = {**right, "values": right["values"].flip(-1).contiguous()}
    assert not bench.judge(0, mixed, draw).ok


def test_a_function_of_the_reference_says_what_is_compared(tmp_path: Path) -> None:
    source = """
import torch
def run(x):
    return x.sort(-1).values
def as_set(inputs, outputs):
    return {"sorted": outputs["y"].sort(-1).values, "same": outputs["y"].sum(-1) * 0}
"""
    definition = {
        **TOPK,
        "outputs": {"y": {"shape": ["rows", "64"], "dtype": "float32"}},
        "reference": source,
        "kernelarc": {"compared_as": "as_set"},
    }
    del definition["custom_inputs_entrypoint"]
    problem = _problem(tmp_path, definition, rows=4)
    assert check_problem(problem) == []
    bench = _bench(problem)
    draw = bench.drawer.draw(0)
    bench.check(0, {"y": _x(draw).clone()}, draw)
    with pytest.raises(SolutionFault, match="output sorted at"):
        bench.check(0, {"y": _x(draw) + 1}, draw)


def test_a_form_that_fails_on_an_answer_finds_it_wrong(tmp_path: Path) -> None:
    source = "import torch\ndef run(x): return x.argmax(-1)\ndef at(inputs, outputs):\n"
    source += "    return {'score': inputs['x'].gather(-1, outputs['y'][:, None])}\n"
    definition = {
        **TOPK,
        "outputs": {"y": {"shape": ["rows"], "dtype": "int64"}},
        "reference": source,
        "kernelarc": {"compared_as": "at"},
    }
    del definition["custom_inputs_entrypoint"]
    bench = _bench(_problem(tmp_path, definition, rows=4))
    draw = bench.drawer.draw(0)
    with pytest.raises(SolutionFault, match="compared_as: raised RuntimeError: index 99 is out"):
        bench.check(0, {"y": torch.full((4,), 99)}, draw)


@pytest.mark.parametrize(
    ("asked", "says"),
    [
        ("gone", "kernelarc.compared_as: 'gone' is neither sampling nor a top-level function"),
        ({"kind": "topk", "indices": "i", "of": "x"}, "compared_as: 'i' is not an output"),
        ({"kind": "topk", "indices": "indices", "of": "y"}, "compared_as: 'y' is not an input"),
        ({"kind": "best", "indices": "indices", "of": "x"}, "kernelarc.compared_as"),
        ({"kind": "topk"}, "kernelarc.compared_as.TopK.indices: Field required"),
        (3, "kernelarc.compared_as"),
    ],
)
def test_a_form_that_cannot_be_is_refused_in_one_line(
    tmp_path: Path, asked: Any, says: str
) -> None:
    with pytest.raises(ProblemError) as refused:
        _problem(tmp_path, {**TOPK, "kernelarc": {"compared_as": asked}}, rows=4)
    assert says in str(refused.value) and "\n" not in str(refused.value)


def test_a_sampling_that_names_no_probabilities_is_refused(tmp_path: Path) -> None:
    problem = _problem(tmp_path, {**TOPK, "kernelarc": {"compared_as": "sampling"}}, rows=4)
    with pytest.raises(ProblemError, match="sampling expects the input probs"):
        check_problem(problem)


def _sampled(draw: Draw, how: str) -> Answer:
    """Sample as a kernel might, right or wrong."""
    probs, top_k = draw.tensors["probs"].double(), draw.tensors["top_k"]
    limited = (top_k > 0) & (top_k < 32)
    place = torch.where(limited, top_k - 1, 31).long()
    pivot = probs.sort(-1, descending=True).values.gather(-1, place[:, None])
    masked = torch.where(probs >= pivot, probs, 0.0)
    match how:
        case "right":
            samples = torch.multinomial(masked, 1)[:, 0]
        case "greedy":
            samples = probs.argmax(-1)
        case "hot":
            samples = torch.multinomial(masked.sqrt(), 1)[:, 0]
        case "first":
            samples = (masked > 0).int().argmax(-1)
        case _:
            samples = torch.multinomial(probs, 1)[:, 0]
    return {"samples": samples}


def _judged(tmp_path: Path, how: str, calls: int) -> None:
    definition = {**SAMPLING, "custom_inputs_entrypoint": "draw"}
    definition["reference"] += """
def draw(axes, device):
    probs = torch.softmax(2 * torch.randn(axes["batch"], 32, device=device), -1)
    return {"probs": probs, "top_k": torch.randint(1, 40, (axes["batch"],)).int()}
"""
    bench = _bench(_problem(tmp_path, definition, batch=16))
    torch.manual_seed(5)
    for _ in range(calls):
        draw = bench.drawer.draw(0)
        bench.check(0, _sampled(draw, how), draw)


def test_honest_samples_pass_though_no_two_are_alike(tmp_path: Path) -> None:
    _judged(tmp_path, "right", 20)


@pytest.mark.parametrize("how", ["greedy", "hot", "first"])
def test_samples_that_do_not_follow_the_probabilities_are_wrong(tmp_path: Path, how: str) -> None:
    with pytest.raises(SolutionFault, match="samples do not follow the probabilities") as fault:
        _judged(tmp_path, how, 200)
    assert fault.value.reason == "wrong_result"


def test_a_sample_beyond_the_top_k_is_wrong_at_once(tmp_path: Path) -> None:
    with pytest.raises(SolutionFault, match="output legal at"):
        _judged(tmp_path, "unlimited", 50)  # some call draws such a sample; mostly the first


def test_a_sampling_problem_of_the_benchmark_can_be_judged(tmp_path: Path) -> None:
    problem = _problem(tmp_path, SAMPLING, batch=8)
    assert check_problem(problem) == []


def test_a_reference_that_does_not_sample_what_it_says_is_refused(tmp_path: Path) -> None:
    greedy = "def run(probs, top_k):\n    return probs.argmax(-1)\n"
    with pytest.raises(ProblemError, match="the reference itself: 64 samples do not follow"):
        check_problem(_problem(tmp_path, {**SAMPLING, "reference": greedy}, batch=8))
    beyond = "def run(probs, top_k):\n    return probs.argmax(-1) + 32\n"
    with pytest.raises(ProblemError, match="the reference itself: draws a token that may not"):
        check_problem(_problem(tmp_path, {**SAMPLING, "reference": beyond}, batch=8))


def test_top_p_allows_the_nucleus_and_its_edge(tmp_path: Path) -> None:
    definition = {
        **SAMPLING,
        "inputs": {
            "probs": SAMPLING["inputs"]["probs"],
            "top_p": {"shape": None, "dtype": "float32"},
        },
        "reference": "def run(probs, top_p):\n    return probs.argmax(-1)\n",
    }
    problem = _problem(tmp_path, definition, batch=1)
    form = Oracle(problem).form
    assert form is not None and form.sampling is not None
    probs = torch.tensor([[0.1, 0.5, 0.25, 0.15] + [0.0] * 28])
    cases = ((1, 0.4, 1), (2, 0.4, 0), (2, 0.6, 1), (3, 0.6, 0), (9, 1.0, 0), (2, -0.5, 0))
    for token, p, legal in cases:
        inputs: dict[str, Value] = {"probs": probs, "top_p": p}
        form_of = form.of(inputs, {"samples": torch.tensor([token])})
        assert form_of["legal"].tolist() == [legal], (token, p)


def test_top_p_is_taken_of_what_the_top_k_leave(tmp_path: Path) -> None:
    definition = {
        **SAMPLING,
        "name": "top_k_top_p_sampling_from_probs_v32",
        "inputs": {**SAMPLING["inputs"], "top_p": {"shape": ["batch"], "dtype": "float32"}},
        "custom_inputs_entrypoint": "draw",
        "reference": """
import torch
def run(probs, top_k, top_p):
    samples = torch.empty(probs.shape[0], dtype=torch.int32)
    for row in range(probs.shape[0]):
        ordered, places = torch.sort(probs[row], descending=True)
        ordered = ordered[: int(top_k[row])]
        ordered = ordered / ordered.sum()
        kept = (ordered.cumsum(0) - ordered) < top_p[row]
        samples[row] = places[torch.multinomial(torch.where(kept, ordered, 0), 1)]
    return samples
def draw(axes, device):
    probs = torch.softmax(2 * torch.randn(axes["batch"], 32, device=device), -1)
    few, share = torch.randint(2, 9, (axes["batch"],)).int(), 0.2 + 0.7 * torch.rand(axes["batch"])
    return {"probs": probs, "top_k": few, "top_p": share}
""",
        "outputs": {"samples": {"shape": ["batch"], "dtype": "int32"}},
    }
    assert check_problem(_problem(tmp_path, definition, batch=8)) == []


def test_pooled_samples_are_tested_as_they_double() -> None:
    pool = Pool()
    uniform = torch.linspace(0, 1, LEAST // 2, dtype=torch.float64).expand(2, -1)
    assert pool.add(uniform) == "" and pool.tested == 0
    assert pool.add(uniform) == "" and pool.tested == LEAST
    assert "128 samples" in pool.add(torch.full((2, LEAST), 0.01, dtype=torch.float64))
    assert farthest(torch.tensor([0.5])) == 0.5


def test_problems_without_a_form_keep_their_digest(tmp_path: Path) -> None:
    plain = {key: value for key, value in TOPK.items() if key != "kernelarc"}
    first = _problem(tmp_path / "a", plain, rows=4)
    second = _problem(tmp_path / "b", TOPK, rows=4)
    assert first.digest != second.digest
    assert Problem.model_validate_json(second.model_dump_json()).digest == second.digest
    made = make_inputs(first.definition, first.workloads[0], 3)
    assert list(made) == ["x"]
