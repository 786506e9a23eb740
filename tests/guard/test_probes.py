"""The calls of the correctness stage, with an arm that gives right answers and no runner."""

from typing import Any

import pytest
import torch
from guard_process import problem

from kernelarc_guard.bench import Bench
from kernelarc_guard.draws import Draw, Drawer
from kernelarc_guard.oracle import Oracle
from kernelarc_guard.probes import Probes
from kernelarc_guard.problem import Problem
from kernelarc_guard.protocol import Schedule


class RightArm:
    """Computes what a right solution gives, without asking the oracle."""

    def __init__(self, bench: Bench) -> None:
        self.draws: list[Draw] = []
        self._bench = bench

    def begin(
        self, workload: int, draw: Draw, *, hold: bool = False, renew: bool = False, timed: bool
    ) -> None:
        assert not timed
        self.draws.append(draw)

    def finish(self) -> int:
        return 1000

    def outputs(self, workload: int) -> dict[str, torch.Tensor]:
        one = self._bench.problem.workloads[workload]
        return self._bench.oracle.reference_outputs(one, self.draws[-1].inputs)

    def changed_since(self, workload: int, outputs: Any) -> None:
        return None


@pytest.fixture
def bench() -> Bench:
    made = Problem.model_validate(problem())
    return Bench(made, Schedule(), Oracle(made), Drawer(made, 0), lambda seen: None)


def test_the_answer_to_each_draw_is_computed_once(bench: Bench) -> None:
    asked: list[Any] = []
    answer = bench.oracle.answer

    def counted(workload: Any, inputs: Any) -> Any:
        asked.append(inputs)
        return answer(workload, inputs)

    bench.oracle.answer = counted  # type: ignore[method-assign]
    arm: Any = RightArm(bench)
    Probes(bench, arm, 0).run()
    called = {id(draw.inputs) for draw in arm.draws}
    others = [draw for draw in arm.draws if draw.other]
    assert len(others) > 4, "values of other kinds are among them"
    # What was drawn and is not legal has an answer, too, but no call.
    answered = [id(inputs) for inputs in asked if id(inputs) in called]
    assert sorted(answered) == sorted(called)
