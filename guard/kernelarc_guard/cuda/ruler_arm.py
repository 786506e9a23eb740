"""A runner of the guard's own that launches the smallest kernel and nothing else (imports torch)."""

from typing import Final

from kernelarc_guard.cuda.arm import CudaArm
from kernelarc_guard.cuda.draws import CudaDrawer
from kernelarc_guard.definition import Definition
from kernelarc_guard.solution import Solution, SourceFile, Spec

_SOURCE: Final = """import torch

_word = torch.zeros(1, dtype=torch.int32, device="cuda")


def run(*arguments):
    _word.fill_(1)
"""


def ruler_solution(definition: Definition) -> Solution:
    """Return the solution whose calls hold nothing but the smallest kernel."""
    return Solution(
        name="smallest kernel",
        definition=definition.name,
        author="guard",
        spec=Spec(languages=["pytorch"], entry_point="smallest.py::run"),
        sources=[SourceFile(path="smallest.py", content=_SOURCE)],
    )


class RulerArm(CudaArm):
    """Its calls return their windows as they are; its one workload is the problem's smallest."""

    def _new_buffers(self) -> None:
        drawer = self._drawer
        assert isinstance(drawer, CudaDrawer)
        small = min(drawer.indices, key=drawer.elements)
        self._buffers.append(drawer.on_device(small))

    def _taken_off(self) -> int:
        return 0
