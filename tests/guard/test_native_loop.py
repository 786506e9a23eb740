"""The loop in native code: what it passes, what it hands back, and the delay it plants."""

import json
from pathlib import Path
from statistics import median
from typing import Any

import pytest
from cases import make_problem
from guard_process import DLPACK, REFERENCE, SCHEDULE, Guard, cpp, problem, python
from laboratory import Laboratory

from kernelarc_guard.protocol import Result
from kernelarc_guard.solution import Solution

INPUTS = {
    "a": (["n"], "float32"),
    "f": (None, "float32"),
    "b": (["n"], "float32"),
    "i": (None, "int64"),
    "c": (["n"], "float32"),
    "g": (None, "float64"),
    "d": (["n"], "float32"),
    "j": (None, "int64"),
    "e": (["n"], "float32"),
}
BODY = "    return a * f + b * i + c * g + d * j + e\n"
DRAW = """
def draw(axes, device):
    made = {name: torch.randn(axes["n"]) for name in "abcde"}
    f, g = torch.rand(2).tolist()
    i, j = torch.randint(-9, 9, (2,)).tolist()
    return made | {"f": f, "g": g, "i": i, "j": j}
"""
SOURCE = """#include <cstdint>
#include <dlpack/dlpack.h>
static const float* at(const DLTensor* t) { return static_cast<const float*>(t->data); }
extern "C" int run(const DLTensor* a, double f, const DLTensor* b, int64_t i, const DLTensor* c,
                   double g, const DLTensor* d, int64_t j, const DLTensor* e, DLTensor* y) {
  float* out = static_cast<float*>(y->data);
  for (int64_t k = 0; k < a->shape[0]; ++k)
    out[k] = at(a)[k] * f + at(b)[k] * i + at(c)[k] * g + at(d)[k] * j + at(e)[k];
  return 0;
}
"""


@pytest.fixture(scope="module")
def guard(tmp_path_factory: pytest.TempPathFactory) -> Any:
    with Guard(tmp_path_factory.mktemp("cache")) as process:
        yield process


def test_tensors_and_scalars_of_both_kinds_arrive_in_their_places(guard: Guard) -> None:
    made = make_problem("mixed", INPUTS, ["n"], BODY, [{"n": 50}, {"n": 900}], DRAW)
    record = {
        "name": "reference",
        "definition": "mixed",
        "spec": {
            "languages": ["pytorch"],
            "entry_point": "r.py::run",
            "destination_passing_style": False,
        },
        "sources": [{"path": "r.py", "content": made["definition"]["reference"]}],
    }
    result = guard.ask(
        "screen",
        problem=made,
        record=record,
        candidate=cpp(SOURCE) | {"definition": "mixed"},
        correctness_only=True,
    )
    assert (result.verdict, result.stages["correctness"].state) == (None, "passed"), result.detail


def test_a_planted_delay_is_seen_though_no_interpreter_runs(guard: Guard, tmp_path: Path) -> None:
    kernel = cpp(
        """#include <cmath>
#include <dlpack/dlpack.h>
extern "C" int run(const DLTensor* x, double scale, DLTensor* y) {
  const float* in = static_cast<const float*>(x->data);
  float* out = static_cast<float*>(y->data);
  for (int64_t i = 0; i < x->shape[0]; ++i)
    for (int k = 0; k < 5; ++k) out[i] = std::tanh(in[i] + 0 * k) * scale;
  return 0;
}
"""
    )
    body = {
        "id": "c1",
        "op": "compare",
        "cache_dir": str(tmp_path),
        "problem": problem(),
        "record": kernel,
        "candidate": kernel,
        "pairs": 2,
        "blocks": 3,
        "planted": 100.0,
        "schedule": SCHEDULE | {"calls": 5, "call_seconds": 20.0},
    }
    result = guard.send(json.dumps(body).encode())
    assert isinstance(result, Result) and result.verdict is None, result
    times = [(b.record[1], b.candidate[1]) for pair in result.pairs for b in pair.blocks]
    # The delay multiplies by e. Compared block by block: a busy machine slows one arm for moments, and all of an
    # arm's calls by as much only where the other's are slowed, too.
    slower = [min(candidate) / min(record) for record, candidate in times]
    assert median(slower) > 1.5, times


def test_only_solutions_whose_tensors_have_versions_are_told_what_changed(tmp_path: Path) -> None:
    kernels = [(cpp(DLPACK), False), (python(REFERENCE), True)]
    with Laboratory(tmp_path) as lab:
        for kernel, told in kernels:
            arm = lab.run(Solution.model_validate(kernel))
            draw = lab.drawer.draw(0)
            for _ in range(2):
                arm.call(0, draw)
            assert (arm._page.read_order().rewritten == 0) is told
            arm.close()
