"""A runner of the guard's own beside a pair, and what it says is taken off windows."""

import mmap
from types import SimpleNamespace
from typing import Any

import pytest

from kernelarc_guard import control, runner
from kernelarc_guard.cuda.turns import Disturbed, Turns
from kernelarc_guard.faults import CandidateFault, SolutionFault
from kernelarc_guard.pair_ruler import PairRuler


class Windows:
    """A ruler, and the pair beside it: windows of so many nanoseconds, or a fault."""

    def __init__(self, ruler: list[int | Exception], pair: Exception | None = None) -> None:
        self.heeded: list[list[int]] = []
        self.notes: list[str] = []
        self.pair_calls = 0
        self._windows = iter(ruler)
        self._fault = pair
        drawer = SimpleNamespace(
            thrifty=False,
            scalar_outputs=[],
            indices=range(2),
            elements=lambda workload: 7 - workload,
            draw=lambda workload: f"inputs of {workload}",
        )
        backend = SimpleNamespace(
            wants_ruler=lambda: True,
            start_ruler=lambda nursery, bench: SimpleNamespace(
                wait_loaded=lambda: None, call=self._window, empty_ns=100
            ),
            heed_ruler=self.heeded.append,
        )
        bench: Any = SimpleNamespace(
            awake=False, drawer=drawer, backend=backend, note=self.notes.append
        )
        nursery: Any = None
        ruler_of = PairRuler(bench)
        ruler_of.start(nursery)
        ruler_of.get_ready()
        pair_of: Any = SimpleNamespace(call=self._call, check=lambda: None)
        ruler_of.measure(pair_of)

    def _window(self, workload: int, draw: str) -> int:
        assert draw == "inputs of 1"
        window = next(self._windows)
        if isinstance(window, Exception):
            raise window
        return window

    def _call(self, workload: int, checked: bool) -> None:
        assert checked and workload == 1
        self.pair_calls += 1
        if self._fault is not None:
            raise self._fault


def test_what_a_rulers_windows_take_longer_is_heeded_without_the_first() -> None:
    seen = Windows([900, *range(148, 160)])
    assert seen.heeded == [list(range(48, 48 + seen.pair_calls))]
    assert not seen.notes


def test_a_ruler_that_is_held_up_leaves_it_to_the_arms_to_show_by_whom() -> None:
    seen = Windows([900, 148, SolutionFault("tampering", "early start", 0)])
    assert not seen.heeded
    assert seen.notes == ["ruler_disturbed: early start"]


def test_a_candidates_fault_beside_a_ruler_is_the_candidates() -> None:
    fault = CandidateFault("late_write", "it went on", 1)
    with pytest.raises(CandidateFault, match="it went on"):
        Windows([900], pair=fault)


def test_what_is_taken_off_is_a_runners_own_and_what_rulers_have_more_beside_calls() -> None:
    turns = Turns()
    assert turns.usual_ns is None
    assert turns.taken_off_ns(149_500) == 148_760
    for longer in (300, 100, 200):
        turns.add_beside([longer - 1, longer, longer + 9_000])
    assert (turns.taken_off_ns(149_500), turns.taken_off_ns(148_500)) == (148_960, 147_960)
    turns.add_beside([40_000])  # something else had a part in that
    assert turns.taken_off_ns(149_500) == 148_960


def test_a_runner_whose_empty_windows_are_unlike_all_others_is_noticed() -> None:
    turns = Turns()
    assert not turns.unlike(149_000)
    for own in (148_400, 149_000, 149_600):
        turns.add_before(own)
    assert not turns.unlike(150_500)
    assert turns.unlike(155_000) and turns.unlike(143_000)


def test_a_runner_is_measured_again_before_its_windows_count_as_disturbed() -> None:
    turns = Turns()
    assert turns.settle(lambda: 149_300) == 149_300
    taken = iter([159_200, 163_000, 150_000, 0])
    assert turns.settle(lambda: next(taken)) == 150_000
    assert list(taken) == [0]
    assert turns.usual_ns == 149_650


def test_a_runner_that_stays_unlike_the_others_is_refused_with_all_that_was_measured() -> None:
    turns = Turns()
    turns.add_before(149_300)
    said: list[int] = []

    def measure() -> int:
        said.append(159_200 + 100 * len(said))
        return said[-1]

    with pytest.raises(Disturbed) as refused:
        turns.settle(measure)
    assert f"159.2, 159.3, 159.4, 159.5, 159.6, 159.7 us, measured {len(said)} times" in str(
        refused.value
    )
    assert "took 149.3 us before" in str(refused.value)
    assert turns.usual_ns == 149_300


def test_a_runner_calls_nothing_as_often_as_it_is_asked_and_goes_on_when_it_is_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    page = control.ControlPage(mmap.mmap(-1, control.SIZE))
    seen: list[str] = []
    orders = iter([1, 2, 3, None])

    def stop(pid: int, number: int) -> None:
        call = next(orders)
        if call is not None:
            page.order(control.Order(call, control.RUN, 0, flags=control.QUEUE))

    side: Any = SimpleNamespace(
        before=lambda order: seen.append(f"wait {order.call}"),
        touch=lambda: seen.append("touch"),
        after=lambda order: seen.append(f"done {order.call}"),
    )
    monkeypatch.setattr("os.kill", stop)
    runner._call_nothing(page, side)
    assert seen == [w for n in (1, 2, 3) for w in (f"wait {n}", "touch", f"done {n}")]
    assert page.read_report()[:2] == (3, control.DONE)
    assert list(orders) == []


def test_first_pairs_have_rulers_and_later_ones_seldom() -> None:
    turns = Turns()
    for _ in range(8):
        assert turns.wants_ruler()
        turns.add_beside([200])
    assert [turns.wants_ruler() for _ in range(8)].count(True) == 1
    turns.begin("another problem")
    assert turns.wants_ruler() and turns.taken_off_ns(149_000) == 149_000 - 740
