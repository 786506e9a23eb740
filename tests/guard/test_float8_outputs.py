"""Outputs of one byte: torch cannot ask them whether they are finite, and they are judged all the same."""

import pytest
import torch
from cases import make_problem

from kernelarc_guard.backend import CpuBackend
from kernelarc_guard.bench import Bench
from kernelarc_guard.dtypes import all_finite
from kernelarc_guard.formats.trying import run_once
from kernelarc_guard.oracle import Oracle
from kernelarc_guard.problem import Problem
from kernelarc_guard.protocol import Schedule


@pytest.fixture(scope="module")
def problem() -> Problem:
    """Return a quantisation to float8."""
    return Problem.model_validate(
        make_problem(
            "quantise",
            {"x": (["m", "k"], "float32")},
            ["m", "k"],
            "    return x.to(torch.float8_e4m3fn)\n",
            [{"m": 4, "k": 64}],
            dtype="float8_e4m3fn",
            tolerance=(0.1, 0.1),
        )
    )


def test_values_of_every_width_are_asked_whether_they_are_finite() -> None:
    for dtype in (torch.float8_e4m3fn, torch.float8_e5m2, torch.bfloat16, torch.float64):
        values = torch.tensor([1.0, -2.0]).to(dtype)
        assert all_finite(values)
        assert not all_finite(torch.tensor([1.0, float("nan")]).to(dtype))
    assert all_finite(torch.tensor([1, 2], dtype=torch.int8))


def test_its_reference_runs_and_says_what_it_gave(problem: Problem) -> None:
    assert run_once(problem) == "y [4, 4] float8_e4m3fn at m=4, k=4"


def test_other_values_of_its_inputs_are_tried(problem: Problem) -> None:
    backend = CpuBackend()
    drawer = backend.drawer(problem, 0)
    oracle = Oracle(problem, backend.place)
    bench = Bench(problem, Schedule(), oracle, drawer, print, backend=backend)
    kinds = [bench.drawn_as(0, kind) for kind in drawer.variety.kinds(0)]
    assert sum(draw is not None for draw in kinds) >= 3
