"""Which draws of another kind are used: near enough to float64, whatever the outputs' own rounding is."""

import pytest
import torch
from cases import make_problem

from kernelarc_guard.backend import CpuBackend
from kernelarc_guard.bench import Bench
from kernelarc_guard.definition import KINDS
from kernelarc_guard.draws import Draw
from kernelarc_guard.legality import Kinds
from kernelarc_guard.oracle import Oracle
from kernelarc_guard.problem import Problem
from kernelarc_guard.protocol import Schedule

BF16 = "bfloat16"
PRODUCT = """    wide = torch.promote_types(a.dtype, torch.float32)
    y = a.to(wide) @ b.to(wide)
    return (y * (1 + OFF * (a.dtype == torch.bfloat16))).to(a.dtype)
"""


def _product(off: float) -> str:
    """Return a reference that is off by a share in its declared precision only."""
    return PRODUCT.replace("OFF", str(off))


def _bench(body: str, tolerance: tuple[float, float]) -> tuple[Bench, list[str]]:
    raw = make_problem(
        "narrow",
        {"a": (["m", "k"], BF16), "b": (["k", "n"], BF16)},
        ["m", "n"],
        body,
        [{"m": 8, "k": 64, "n": 40}],
        dtype=BF16,
        tolerance=tolerance,
    )
    problem, said = Problem.model_validate(raw), list[str]()
    backend = CpuBackend()
    drawer = backend.drawer(problem, 0)
    oracle = Oracle(problem, backend.place)
    return Bench(problem, Schedule(), oracle, drawer, said.append, backend=backend), said


@pytest.mark.parametrize("kind", KINDS)
def test_the_rounding_of_16_bit_outputs_costs_no_kind_of_values(kind: str) -> None:
    # Half a last place is 0.4 %, more than a quarter of the tolerance.
    bench, said = _bench(_product(0.0), (0.05, 0.01))
    assert all(bench.drawn_as(0, kind) is not None for _ in range(12))
    bench.tell_lost(0)
    assert said == []


@pytest.mark.parametrize(("off", "legal"), [(0.0, True), (0.008, False)])
def test_an_error_of_a_whole_last_place_makes_a_draw_illegal(off: float, legal: bool) -> None:
    bench, _ = _bench(_product(off), (0.0, 0.01))
    inputs = {"a": torch.ones(8, 64), "b": torch.full((64, 40), 0.5)}
    draw = Draw({name: one.bfloat16() for name, one in inputs.items()}, "ones", other=True)
    assert bench.legal(0, draw) is legal


def test_a_kind_that_is_never_legal_is_given_up_and_said() -> None:
    bench, said = _bench(_product(0.02), (0.0, 0.01))
    assert [bench.drawn_as(0, "shifted") for _ in range(8)] == [None] * 8
    assert bench.kinds.given_up(0, "shifted")
    bench.tell_lost(0)
    [note] = said
    assert note.startswith("values_left_out: shifted on workload 1: ")


def test_a_kind_that_was_legal_once_is_never_given_up() -> None:
    kinds = Kinds()
    kinds.count(0, "scaled", True)
    for _ in range(100):
        kinds.count(0, "scaled", False)
        kinds.count(0, "spiked", False)
        kinds.count(1, "edge", False)
    assert not kinds.given_up(0, "scaled")
    assert (kinds.lost(0), kinds.lost(1), kinds.lost(2)) == (["spiked"], ["edge"], [])
