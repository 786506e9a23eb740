"""Calls of another sort: what every dozen of them contains, and what follows a changed static input."""

from collections import Counter
from collections.abc import Iterator
from typing import Any

from attacking import attacks
from cases import make_problem

from kernelarc_guard.draws import Draw, Drawer
from kernelarc_guard.problem import Problem
from kernelarc_guard.unannounced import Unannounced

_DOZEN = 12


class _Dealing:
    """Deals calls of a problem whose reference bears everything."""

    def __init__(self, problem: Problem) -> None:
        self.drawer = Drawer(problem, evict_bytes=0)
        self._dealer = Unannounced(self.drawer)

    def calls(self, before: Draw | None) -> Iterator[tuple[Draw | None, bool]]:
        return self._dealer.calls(self, 0, before)

    def other(self, workload: int) -> Draw:
        return self.drawer.derived(workload, "scaled", statics=False)

    def legal(self, workload: int, draw: Draw) -> bool:
        return True


def _projection(**kernelarc: Any) -> Problem:
    f32 = "float32"
    source = "    return x @ weight\n"
    inputs: dict[str, tuple[list[str] | None, str]] = {
        "x": (["m", "k"], f32),
        "weight": (["k", "n"], f32),
    }
    axes = [{"m": 4, "k": 64, "n": 32}]
    return Problem.model_validate(
        make_problem("projection", inputs, ["m", "n"], source, axes, **kernelarc)
    )


def test_every_dozen_calls_spikes_a_constant_input_four_times() -> None:
    [attack] = attacks(lambda name: name == "sampled_weights")
    dealer = _Dealing(attack.problem)
    drawer = dealer.drawer
    for _ in range(5):
        before = drawer.draw(0)
        dozen = [one for _ in range(_DOZEN) for one in dealer.calls(before)]
        kinds = Counter("own" if draw is None else draw.kind for draw, _ in dozen)
        assert kinds["spiked values of norm_weight"] == 4
        assert (kinds["own"], kinds["scaled values"]) == (2, 4)
        assert sum(renew for _, renew in dozen) == 2
        for draw, _ in dozen:
            if draw is not None and draw.kind == "spiked values of norm_weight":
                weight = draw.tensors["norm_weight"]
                assert 1 <= int((weight != 1).sum()) <= 4


def test_where_no_input_is_steady_any_may_be_spiked() -> None:
    dealer = _Dealing(_projection())
    kinds = {draw.kind for _ in range(10 * _DOZEN) for draw, _ in dealer.calls(None) if draw}
    assert {"spiked values of x", "spiked values of weight"} <= kinds


def test_a_call_on_own_values_follows_a_changed_static_input_before_the_next_timed_one() -> None:
    dealer = _Dealing(_projection(static_inputs=["weight"]))
    drawer = dealer.drawer
    spiked = 0
    for _ in range(2 * _DOZEN):
        before = drawer.draw(0)
        draw, _ = next(calls := dealer.calls(before))
        if draw is None or draw.kind != "spiked values of weight":
            assert list(calls) == []
            continue
        spiked += 1
        assert list(calls) == [(None, False)]
        kept = drawer.draw(0).tensors["weight"]
        assert not kept.equal(draw.tensors["weight"])
    assert spiked == 8


def test_nothing_is_spiked_where_the_problem_allows_no_such_values() -> None:
    dealer = _Dealing(_projection(distributions=["scaled"]))
    kinds = {draw.kind for _ in range(_DOZEN) for draw, _ in dealer.calls(None) if draw}
    assert kinds == {"scaled values"}
