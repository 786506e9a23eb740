"""Right answers made while the runners of a pair are at work, and only as long as they are."""

from typing import Any

import pytest
import torch
from guard_process import problem

from kernelarc_guard.bench import Bench
from kernelarc_guard.draws import Drawer
from kernelarc_guard.faults import CandidateFault
from kernelarc_guard.live_pair import LivePair
from kernelarc_guard.oracle import Oracle
from kernelarc_guard.problem import Problem
from kernelarc_guard.protocol import Schedule

PLENTY = 1 << 30


class Runners:
    """A nursery and the arms of a pair: first calls that last for so many answers of the guard's."""

    launches_ahead = True

    def __init__(self, bench: Bench, lasting: list[int], wrong: int | None = None) -> None:
        self.asked: list[int] = []
        """Workloads in the order in which the reference ran on them."""
        self.early: list[list[int]] = []
        """Those of each first call that were not the call's own."""
        self._bench, self._lasting, self._wrong = bench, iter(lasting), wrong
        answer = bench.oracle.answer

        def counted(workload: Any, inputs: Any) -> Any:
            self.asked.append(bench.problem.workloads.index(workload))
            return answer(workload, inputs)

        bench.oracle.answer = counted  # type: ignore[method-assign]

    def get_set(self, workload: int, draw: Any) -> "Runners":
        self._outputs = bench_outputs(self._bench, draw)
        if workload == self._wrong:
            self._outputs = {name: one + 1 for name, one in self._outputs.items()}
        return self

    def begin_together(self, runners: list[Any], seconds: float) -> None:
        self._until = len(self.asked) + next(self._lasting)
        self._from = len(self.asked)

    @property
    def answered(self) -> bool:
        return len(self.asked) >= self._until

    def finish_together(self, runners: list[Any]) -> list[dict[str, Any]]:
        self.early.append(self.asked[self._from :])
        return [{"ns": 1000} for _ in runners]

    def went(self, answer: dict[str, Any]) -> int:
        return int(answer["ns"])

    def outputs(self, workload: int) -> dict[str, torch.Tensor]:
        return self._outputs


def bench_outputs(bench: Bench, draw: Any) -> dict[str, torch.Tensor]:
    """Return what a right solution gives, without asking the oracle."""
    return bench.oracle._outputs(bench.problem.workloads[0], draw.inputs)


@pytest.fixture
def bench() -> Bench:
    one = problem()
    workload = one["workloads"][0]
    one["workloads"] = [workload | {"uuid": f"w{number}"} for number in range(4)]
    made = Problem.model_validate(one)
    schedule = Schedule(warmup_calls=1)
    return Bench(made, schedule, Oracle(made), Drawer(made, 0), lambda seen: None)


def warmed_up(bench: Bench, runners: Any, free: int = PLENTY) -> LivePair:
    nothing: Any = type("NoAnchor", (), {"get_set": lambda *_: [], "went": lambda *_: None,
                                         "warm_up": lambda *_: None})()  # fmt: skip
    pair = LivePair(bench, runners, runners, runners, nothing)
    bench.early.begin(free)
    for workload in bench.drawer.indices:
        pair.warm_up(workload)
    pair.check()
    return pair


def test_answers_of_later_workloads_are_made_only_while_runners_are_at_work(bench: Bench) -> None:
    runners = Runners(bench, lasting=[3, 0, 0, 5])
    warmed_up(bench, runners)
    # The first call lasts for three answers; those of the two later workloads are there then.
    assert runners.early == [[0, 1, 2], [], [], [3]]
    assert runners.asked == [0, 1, 2, 3], "each right answer is computed once"


def test_without_room_and_on_a_cpu_nothing_is_made_early(bench: Bench) -> None:
    runners = Runners(bench, lasting=[9, 9, 9, 9])
    warmed_up(bench, runners, free=0)
    assert runners.early == [[0], [1], [2], [3]]
    bench.early.begin_on("cpu")
    bench.answer_early(-1, lambda: True)
    assert all(bench.early.draw_of(workload) is None for workload in bench.drawer.indices)


def test_an_output_is_held_to_the_answer_to_its_own_inputs_that_was_made_early(
    bench: Bench,
) -> None:
    with pytest.raises(CandidateFault) as caught:
        warmed_up(bench, Runners(bench, lasting=[9, 9, 9, 9], wrong=2))
    assert (caught.value.reason, caught.value.workload) == ("wrong_result", 2)


def test_an_early_answer_is_given_for_the_inputs_it_was_made_for_and_no_others(
    bench: Bench,
) -> None:
    bench.early.begin(PLENTY)
    bench.answer_early(0, lambda: True)
    made, other = bench.early.draw_of(1), bench.drawer.draw(1)
    assert made is not None
    expected = bench.answer(1, other).expected
    assert bench.early.draw_of(1) is None, "it is of no more use"
    for name, one in bench.oracle.expected(bench.problem.workloads[1], other.inputs).items():
        assert torch.equal(one, expected[name])
    bench.early.begin(PLENTY)
    assert bench.early.draw_of(2) is None
