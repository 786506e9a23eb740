"""Places that an indexer of sparse attention chooses: compared by their keys' scores."""

from pathlib import Path
from typing import Any

import pytest
import torch
from problem_folders import write_problem

from kernelarc_guard.bench import Bench
from kernelarc_guard.check_problem import check_problem
from kernelarc_guard.draws import Draw, Drawer
from kernelarc_guard.faults import SolutionFault
from kernelarc_guard.inputs import make_inputs
from kernelarc_guard.oracle import Oracle
from kernelarc_guard.problem import Problem, read_problem
from kernelarc_guard.protocol import Schedule

TOKENS, LENGTH, TOP = 4, 8, 6
REFERENCE = """
import torch
def run(q_index_fp8, k_index_cache_fp8, weights, seq_lens, block_table):
    pages, tokens, _, width = k_index_cache_fp8.shape
    raw = k_index_cache_fp8.view(torch.uint8).reshape(pages, -1)
    at = tokens * (width - 4)
    values = raw[:, :at].reshape(pages, tokens, -1).view(torch.float8_e4m3fn).float()
    keys = values * raw[:, at:].contiguous().view(torch.float32)[..., None]
    chosen = torch.full((len(seq_lens), 6), -1, dtype=torch.int32)
    for row, length in enumerate(seq_lens.tolist()):
        used = block_table[row, : -(-length // tokens)].long()
        scores = torch.relu(keys[used].reshape(-1, width - 4)[:length] @ q_index_fp8[row].float().T)
        best = torch.topk(scores @ weights[row].float(), min(6, length)).indices
        chosen[row, : len(best)] = (used[best // tokens] * tokens + best % tokens).int()
    return chosen
def draw(axes, device):
    rows, pages, table = axes["rows"], axes["pages"], axes["table"]
    keys = torch.randint(-2, 3, (pages, 4 * 8)).to(torch.float8_e4m3fn).view(torch.uint8)
    scales = torch.ones(pages, 4).view(torch.uint8)
    return {
        "q_index_fp8": torch.randint(-1, 2, (rows, 2, 8)).to(torch.float8_e4m3fn),
        "k_index_cache_fp8": torch.cat([keys, scales], 1).view(torch.int8).reshape(pages, 4, 1, 12),
        "weights": torch.randint(1, 3, (rows, 2)).float(),
        "seq_lens": torch.randint(0, table * 4 + 1, (rows,)).int(),
        "block_table": torch.stack([torch.randperm(pages)[:table] for _ in range(rows)]).int(),
    }
"""
DEFINITION: dict[str, Any] = {
    "name": "dsa_topk_indexer_fp8_h2_d8_topk6_ps4",
    "axes": {axis: {"type": "var"} for axis in ("rows", "pages", "table")},
    "custom_inputs_entrypoint": "draw",
    "inputs": {
        "q_index_fp8": {"shape": ["rows", "2", "8"], "dtype": "float8_e4m3fn"},
        "k_index_cache_fp8": {"shape": ["pages", "4", "1", "12"], "dtype": "int8"},
        "weights": {"shape": ["rows", "2"], "dtype": "float32"},
        "seq_lens": {"shape": ["rows"], "dtype": "int32"},
        "block_table": {"shape": ["rows", "table"], "dtype": "int32"},
    },
    "outputs": {"topk_indices": {"shape": ["rows", "6"], "dtype": "int32"}},
    "reference": REFERENCE,
}


def _problem(folder: Path, **changes: Any) -> Problem:
    inputs = {name: {"type": "custom"} for name in DEFINITION["inputs"]}
    line = {"uuid": "w", "axes": {"rows": 24, "pages": 9, "table": 5}, "inputs": inputs}
    return read_problem(write_problem(folder, DEFINITION | changes, [line]))


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    problem = _problem(tmp_path)
    drawer = Drawer(problem, 0)
    return Bench(problem, Schedule(), Oracle(problem), drawer, lambda seen: None)


def _right(bench: Bench, draw: Draw) -> torch.Tensor:
    outputs = bench.oracle.reference_outputs(bench.problem.workloads[0], draw.inputs)
    return outputs["topk_indices"]


def _all_scores(draw: Draw, row: int) -> dict[int, float]:
    """Return the score of every place that a row may choose, by plain arithmetic."""
    one = draw.tensors
    length, table = int(one["seq_lens"][row]), one["block_table"][row].tolist()
    cache = one["k_index_cache_fp8"].view(torch.uint8).reshape(-1, TOKENS * (LENGTH + 4))
    query, weights = one["q_index_fp8"][row].double(), one["weights"][row].double()
    found = {}
    for at in range(length):
        page, token = table[at // TOKENS], at % TOKENS
        key = cache[page, token * LENGTH : (token + 1) * LENGTH].view(torch.float8_e4m3fn).double()
        found[page * TOKENS + token] = float((torch.relu(query @ key) * weights).sum())
    return found


def test_such_a_problem_can_be_judged_without_a_word_of_its_own(tmp_path: Path) -> None:
    assert check_problem(_problem(tmp_path)) == []


def test_other_places_with_equal_scores_in_any_order_are_right(bench: Bench) -> None:
    draw = bench.drawer.draw(0)
    right = _right(bench, draw)
    other = torch.full_like(right, -1)
    for row in range(len(right)):
        scores = _all_scores(draw, row)
        best = sorted(scores, key=lambda place: (scores[place], place))[-TOP:]
        other[row, TOP - len(best) :] = torch.tensor(best, dtype=torch.int32)
    assert not torch.equal(right.sort(-1).values, other.sort(-1).values), "no ties were drawn"
    bench.check(0, {"topk_indices": other}, draw)
    assert bench.worst[0].max_absolute_error == 0


def _worse(chosen: torch.Tensor, draw: Draw, row: int) -> torch.Tensor:
    scores = _all_scores(draw, row)
    least = min(scores, key=lambda place: scores[place])
    return chosen.index_put((torch.tensor(row), torch.tensor(0)), torch.tensor(least).int())


def _twice(chosen: torch.Tensor, draw: Draw, row: int) -> torch.Tensor:
    return chosen.index_put((torch.tensor(row), torch.tensor(1)), chosen[row, 0])


def _left_out(chosen: torch.Tensor, draw: Draw, row: int) -> torch.Tensor:
    return chosen.index_put((torch.tensor(row), torch.tensor(2)), torch.tensor(-1).int())


def _beyond(chosen: torch.Tensor, draw: Draw, row: int) -> torch.Tensor:
    return chosen.index_put((torch.tensor(row), torch.tensor(0)), torch.tensor(36).int())


def _of_another_row(chosen: torch.Tensor, draw: Draw, row: int) -> torch.Tensor:
    free = set(range(36)) - set(_all_scores(draw, row))
    return chosen.index_put((torch.tensor(row), torch.tensor(0)), torch.tensor(max(free)).int())


@pytest.mark.parametrize("spoil", [_worse, _twice, _left_out, _beyond, _of_another_row])
def test_places_that_are_worse_or_not_allowed_are_wrong(bench: Bench, spoil: Any) -> None:
    draw = bench.drawer.draw(0)
    row = int(draw.tensors["seq_lens"].argmax())
    spoilt = spoil(_right(bench, draw), draw, row).contiguous()
    with pytest.raises(SolutionFault) as fault:
        bench.check(0, {"topk_indices": spoilt}, draw)
    assert fault.value.reason in ("wrong_result", "wrong_nonfinite")


def test_another_name_or_other_outputs_are_compared_as_they_are(tmp_path: Path) -> None:
    assert Oracle(_problem(tmp_path, name="indexer")).form is None
    seen = _problem(tmp_path)
    made = make_inputs(seen.definition, seen.workloads[0], 1)
    form = Oracle(seen).form
    assert form is not None
    answer = Oracle(seen).answer(seen.workloads[0], made)
    assert set(answer.expected) == {"scores", "legal"}
