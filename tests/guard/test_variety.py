"""Which values an input may also be given, and which it must keep."""

from typing import Any

import pytest
import torch
from cases import PROBLEMS
from hypothesis import given
from hypothesis import strategies as st

from kernelarc_guard.check_problem import check_problem
from kernelarc_guard.definition import KINDS
from kernelarc_guard.distributions import changed
from kernelarc_guard.draws import Draw, Drawer
from kernelarc_guard.faults import Refused
from kernelarc_guard.problem import Problem
from kernelarc_guard.rewriting import partly
from kernelarc_guard.staleness import is_stale
from kernelarc_guard.trials import Trials
from kernelarc_guard.variety import generator_axes
from kernelarc_guard.workload import Tolerance


def _drawer(name: str, **kernelarc: Any) -> Drawer:
    return Drawer(_problem(name, **kernelarc), evict_bytes=0)


def _problem(name: str, **kernelarc: Any) -> Problem:
    raw = PROBLEMS[name]
    definition = raw["definition"] | {"kernelarc": raw["definition"]["kernelarc"] | kernelarc}
    return Problem.model_validate(raw | {"definition": definition})


def test_the_problems_of_the_cases_can_be_graded() -> None:
    for name, raw in PROBLEMS.items():
        notes = check_problem(Problem.model_validate(raw))
        told = ["constant_input: attention_mask"] if name == "masked" else []
        assert [note[: len("constant_input: attention_mask")] for note in notes] == told, name


def test_a_random_input_without_a_meaning_is_tried_in_every_kind() -> None:
    assert set(_drawer("bend").variety.kinds(0)) == set(KINDS)


def test_an_own_generator_keeps_its_values_but_for_their_scale() -> None:
    assert _drawer("sideways").variety.kinds(0) == ["scaled"]


def test_a_generator_with_an_axis_of_its_own_lends_its_workloads_to_one_another() -> None:
    variety = _drawer("limit").variety
    assert variety.kinds(0) == []
    assert variety.siblings == [[1], [0]]
    assert generator_axes(_problem("limit").definition) == ["wide"]
    assert generator_axes(_problem("bend").definition) == []


def test_a_problem_may_say_which_kinds_it_allows() -> None:
    assert _drawer("bend", distributions=[]).variety.kinds(0) == []
    assert _drawer("limit", distributions={"x": ["shifted"]}).variety.kinds(1) == ["shifted"]
    with pytest.raises(ValueError, match="distributions: 'z' is not an input"):
        _drawer("bend", distributions={"z": ["scaled"]})


@given(st.sampled_from(KINDS), st.integers(0, 2**40), st.booleans())
def test_every_kind_keeps_shape_dtype_strides_and_infinities(
    kind: str, seed: int, narrow: bool
) -> None:
    dtype = torch.float16 if narrow else torch.float32
    before = torch.randn(6, 9).to(dtype).t()
    before[2, 3] = float("-inf")
    after = changed(before, kind, torch.Generator().manual_seed(seed))
    assert (after.dtype, after.shape, after.stride()) == (dtype, before.shape, before.stride())
    assert torch.equal(after.isfinite(), before.isfinite())
    assert after[2, 3] == float("-inf")


@given(st.integers(0, 2**40))
def test_a_scale_keeps_zeros_and_the_order_within_a_row(seed: int) -> None:
    before = torch.randn(5, 30).triu()
    after = changed(before, "scaled", torch.Generator().manual_seed(seed))
    assert torch.equal(before == 0, after == 0)
    assert torch.equal(before.argsort(stable=True), after.argsort(stable=True))


@given(st.integers(0, 2**40))
def test_skewed_integers_stay_among_those_that_were_drawn(seed: int) -> None:
    before = torch.randint(0, 50, (40,))
    after = changed(before, "edge", torch.Generator().manual_seed(seed))
    assert set(after.tolist()) <= set(before.tolist())


def test_a_part_is_rewritten_and_the_rest_stays() -> None:
    old, fresh = torch.randn(8, 20), torch.randn(8, 20)
    rows = partly(old, fresh, "rows")
    assert rows is not None
    assert int((rows != old).any(-1).sum()) == 1
    one = partly(old, fresh, "elements")
    assert one is not None
    assert int((one != old).sum()) == 1


def test_rows_of_float8_are_rewritten_too() -> None:
    old, fresh = (torch.randn(8, 20).to(torch.float8_e4m3fn) for _ in range(2))
    rows = partly(old, fresh, "rows")
    assert rows is not None
    assert int((rows.float() != old.float()).any(-1).sum()) == 1


def test_structure_that_a_part_would_break_is_left_alone() -> None:
    square = torch.randn(6, 6)
    for old, fresh in [
        (square + square.T, torch.randn(6, 6)),
        (torch.arange(10.0), torch.arange(10.0) + 1),
        (torch.arange(10), torch.arange(10) + 1),
    ]:
        assert partly(old, fresh, "rows") is None
        assert partly(old, fresh, "elements") is None
    for old, fresh in [
        (torch.randn(4, 30).softmax(-1), torch.randn(4, 30).softmax(-1)),
        (torch.stack([torch.randperm(30) for _ in range(4)]).float() for _ in range(2)),
    ]:
        assert partly(old, fresh, "rows") is not None
        assert partly(old, fresh, "elements") is None


def test_a_static_input_changes_seldom_and_is_the_same_tensor_until_then() -> None:
    drawer = _drawer("project")
    draws = [drawer.draw(1) for _ in range(200)]
    changes = sum(
        one.inputs["weight"] is not other.inputs["weight"]
        for one, other in zip(draws, draws[1:], strict=False)
    )
    assert 5 <= changes <= 60
    assert len({id(one.inputs["x"]) for one in draws}) == 200
    assert drawer.fresh(1).inputs["weight"] is not draws[-1].inputs["weight"]


def test_other_values_leave_static_inputs_as_they_are_or_change_them_for_one_call() -> None:
    drawer = _drawer("project")
    before = drawer.draw(0).inputs["weight"]
    assert drawer.derived(0, "scaled", False).inputs["weight"] is before
    other = drawer.derived(0, "scaled", True).inputs["weight"]
    assert other is not before
    assert drawer.draw(0).inputs["weight"] is not other


def test_a_draw_for_no_call_leaves_it_open_whether_static_inputs_are_new() -> None:
    drawer = _drawer("project")
    drawer.derived(0, "scaled", True)
    assert drawer.unsettled(0)
    assert drawer.aside(0).inputs.keys() == {"x", "weight"} and drawer.unsettled(0)
    drawer.draw(0)
    assert not drawer.unsettled(0)


def test_buffers_rewrite_only_what_changed() -> None:
    drawer = _drawer("project")
    buffers = drawer.buffers(0, outputs=False)
    first = drawer.draw(0)
    assert buffers.fill(first.tensors) == ["x", "weight"]
    assert buffers.fill(first.tensors) == []
    assert buffers.fill(first.tensors, frozenset({"x"})) == ["x"]
    other = Draw(first.inputs | {"x": first.tensors["x"].clone()})
    assert buffers.fill(other.tensors) == ["x"]
    assert buffers.changed_inputs(other.tensors) == []
    buffers.close()


def test_a_replay_is_told_from_a_plain_mistake() -> None:
    tolerance = Tolerance(max_atol=1e-3, max_rtol=1e-3)
    old, new = torch.randn(50), torch.randn(50)
    assert is_stale({"y": old}, {"y": new.double()}, tolerance, [{"y": old}])
    assert not is_stale({"y": torch.zeros(50)}, {"y": new.double()}, tolerance, [{"y": old}])
    assert not is_stale({"y": new}, {"y": new.double()}, tolerance, [{"y": new}])
    part = torch.cat([new[:40], old[40:]])
    assert is_stale({"y": part}, {"y": new.double()}, tolerance, [{"y": old}])


def test_a_problem_that_cannot_be_graded_is_refused_every_time() -> None:
    raw = PROBLEMS["bend"]
    constant = "import torch\n\ndef run(x):\n    return torch.ones_like(x)\n"
    problem = Problem.model_validate(
        raw | {"definition": raw["definition"] | {"reference": constant}}
    )
    trials = Trials()
    for _ in range(2):
        with pytest.raises(Refused, match="cannot be graded: workloads: other inputs never"):
            trials.notes(problem)
