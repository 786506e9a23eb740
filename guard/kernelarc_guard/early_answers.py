"""Right answers computed before they are asked for, while runners are at work and the guard is not.

Imports torch. Runners that load libraries at their first call keep the guard waiting for as long as
many answers take. Inputs that were drawn for a later call are the guard's alone until then.
"""

import math
from collections.abc import Callable, Iterable
from typing import Final

import torch

from kernelarc_guard.draws import Draw, Drawer
from kernelarc_guard.oracle import Answer, Oracle
from kernelarc_guard.problem import Problem

_SHARE: Final = 16
"""Of the memory that is free, one part in so many may hold answers that nobody has asked for."""
_ELEMENT_BYTES: Final = 16
"""What is kept of an element at most: of an input itself, of an output both answers."""


class EarlyAnswers:
    """Draws and right answers of workloads whose next call is still to come, one of each."""

    def __init__(self) -> None:
        """Start with none, and without room for any."""
        self._made: dict[int, tuple[Draw, Answer]] = {}
        self._left = 0

    def begin(self, free_bytes: int) -> None:
        """Forget those that are there; a part of `free_bytes` may be taken from now on."""
        self._made.clear()
        self._left = free_bytes // _SHARE

    def begin_on(self, place: str) -> None:
        """Do so with what is free on a device; on a CPU, where nobody waits for runners, with nothing."""
        self.begin(torch.cuda.mem_get_info(place)[0] if place.startswith("cuda") else 0)

    def make(
        self,
        problem: Problem,
        oracle: Oracle,
        drawer: Drawer,
        workloads: Iterable[int],
        idle: Callable[[], bool],
    ) -> None:
        """Draw inputs and compute their answers, workload by workload, while `idle` says so.

        What would take too much memory is left out. Raises OracleError as the oracle does.
        """
        for workload in workloads:
            size = _size(drawer, workload)
            if workload in self._made or size > self._left:
                continue
            if not idle():
                return
            draw = drawer.draw(workload)
            self._made[workload] = draw, oracle.answer(problem.workloads[workload], draw.inputs)
            self._left -= size

    def draw_of(self, workload: int) -> Draw | None:
        """Return the inputs whose answer is there, None where it is not."""
        made = self._made.get(workload)
        return None if made is None else made[0]

    def take(self, workload: int, draw: Draw) -> Answer | None:
        """Return the answer to just these inputs and keep none of the workload any more."""
        made = self._made.pop(workload, None)
        return made[1] if made is not None and made[0] is draw else None


def _size(drawer: Drawer, workload: int) -> int:
    outputs = sum(math.prod(shape or ()) for shape, _ in drawer.output_specs(workload).values())
    return _ELEMENT_BYTES * (drawer.elements(workload) + outputs)
