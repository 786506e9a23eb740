"""Memory: the arithmetic of what lives at once, and comparing without copies."""

import json
from typing import Any

import pytest
import torch

from kernelarc_guard import thrifty
from kernelarc_guard.problem import Problem, ProblemError
from kernelarc_guard.room import room_for
from kernelarc_guard.thrifty import check_problem_thriftily, judged

CARD = 143771 << 20
"""What an H200 has."""


def experts(**kernelarc: Any) -> Problem:
    """Return a problem with three weights of 8.6 GB each, and their gradients."""
    axes = {"experts": 256, "hidden": 4096, "inner": 2048}
    shape = ["experts", "hidden", "inner"]
    weights = {name: {"shape": shape, "dtype": "float32"} for name in ("up", "gate", "down")}
    return _problem(
        axes, weights, {f"grad_{name}": spec for name, spec in weights.items()}, **kernelarc
    )


def small(dtype: str = "float32", **kernelarc: Any) -> Problem:
    """Return a problem of a thousand elements."""
    spec = {"shape": ["n"], "dtype": dtype}
    return _problem({"n": 1000}, {"x": spec}, {"y": spec}, **kernelarc)


def _problem(
    axes: dict[str, int], inputs: dict[str, Any], outputs: dict[str, Any], **kernelarc: Any
) -> Problem:
    names = ", ".join(inputs)
    given = ", ".join(f"{name} * 2" for name in inputs)
    definition = {
        "name": "sized",
        "axes": {name: {"type": "var"} for name in axes},
        "inputs": inputs,
        "outputs": outputs,
        "reference": f"def run({names}):\n    return {given}\n",
        "kernelarc": kernelarc,
    }
    workload = {"uuid": "one", "axes": axes, "tolerance": {"max_atol": 1e-5, "max_rtol": 1e-5}}
    return Problem.model_validate_json(
        json.dumps({"definition": definition, "workloads": [workload]})
    )


def test_a_problem_with_103_gb_live_fits_an_h200_one_arm_at_a_time() -> None:
    room = room_for(experts(oracle="declared"), CARD, together=2)
    assert (room.arms, room.thrifty) == (1, True)
    buffers, drawn, copied, answered = [part.bytes for part in room.parts[1:]]
    one_side = 3 * 256 * 4096 * 2048 * 4
    assert drawn == copied == answered == one_side
    assert buffers + drawn + answered == pytest.approx(103.1e9, rel=0.001)
    assert room.need < CARD


def test_a_problem_that_would_fit_in_declared_precision_is_told_so() -> None:
    with pytest.raises(ProblemError) as refused:
        room_for(experts(), CARD, together=2)
    told = str(refused.value)
    assert "2 arms at once need" in told and "kernelarc.oracle: declared" in told
    assert "96.0 buffers of 2 arms" in told and "= 127.0 GiB" in told


def test_a_problem_that_cannot_fit_is_refused_with_the_arithmetic() -> None:
    with pytest.raises(ProblemError) as refused:
        room_for(experts(oracle="declared"), 80 << 30, together=2)
    told = str(refused.value)
    assert "the device's 80.0 GiB do not hold this problem" in told
    assert "24.0 inputs + 24.0 the reference's copy of them + 24.0 its outputs = 127.0" in told


def test_a_usual_problem_has_room_for_all_arms() -> None:
    room = room_for(small(), CARD, together=3)
    assert (room.arms, room.thrifty) == (3, False)


def test_packed_values_and_float64_are_counted_as_they_lie_in_memory() -> None:
    packed = room_for(small("float4_e2m1"), CARD, together=2)
    plain = room_for(small(), CARD, together=2)
    by_name = [{part.what: part.bytes for part in room.parts} for room in (packed, plain)]
    assert [one["new inputs of the largest"] for one in by_name] == [500, 4000]
    assert by_name[1]["the reference and float64"] == 8000 + 8000 + 3 * 8000


def test_pieces_are_compared_like_the_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(thrifty, "_PIECE", 64)
    problem = small(oracle="declared")
    wanted = {"y": torch.linspace(-3, 3, 1000)}
    assert judged(problem, 0, {"y": wanted["y"].clone()}, wanted).ok
    wrong = {"y": wanted["y"].clone()}
    wrong["y"][777] += 0.5
    result = judged(problem, 0, wrong, wanted)
    assert (result.ok, result.reason) == (False, "wrong_result")
    assert result.max_absolute_error == pytest.approx(0.5)
    assert "from its element 768 on" in result.detail
    wrong["y"][3] = float("nan")
    assert judged(problem, 0, wrong, wanted).reason == "wrong_nonfinite"


def test_a_share_of_elements_is_counted_over_all_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(thrifty, "_PIECE", 100)
    problem = small(oracle="declared", tolerance="sol")
    wanted = {"y": torch.linspace(1, 3, 1000)}
    wrong = {"y": wanted["y"].clone()}
    wrong["y"][:9] += 0.5  # nine in a hundred of one piece, nine in a thousand of all
    assert judged(problem, 0, wrong, wanted).ok
    wrong["y"][500:509] += 0.5
    assert judged(problem, 0, wrong, wanted).reason == "wrong_result"


def test_a_problem_is_tried_thriftily() -> None:
    from kernelarc_guard.oracle import Oracle

    problem = small(oracle="declared")
    check_problem_thriftily(problem, Oracle(problem))
    lax = problem.workloads[0].tolerance.model_copy(update={"max_atol": 1e6})
    workload = problem.workloads[0].model_copy(update={"tolerance": lax})
    nonsense = problem.model_copy(update={"workloads": [workload]})
    with pytest.raises(ProblemError, match="all zero"):
        check_problem_thriftily(nonsense, Oracle(nonsense))
    exact = small(oracle="declared", determinism="bitwise")
    with pytest.raises(ProblemError, match="bitwise"):
        check_problem_thriftily(exact, Oracle(exact))
