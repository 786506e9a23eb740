"""Lines to beat: known solutions that a campaign judges once, before its agents'."""

from typing import Final

from kernelarc_guard.definition import Definition
from kernelarc_guard.solution import Solution, SourceFile, Spec
from kernelarc_mcp.host import products
from kernelarc_mcp.host.events import Created

REFERENCE: Final = "reference"
COMPILED: Final = "torch.compile"
TUNED: Final = "cuBLASLt autotuned"
_COMPILED_TAIL: Final = """

import torch as _torch_to_compile

run = _torch_to_compile.compile(run)
"""


def lines_to_beat(created: Created) -> dict[str, Solution]:
    """Return the solutions by their names on the board, in the order in which they are judged.

    Everywhere the reference, where it is not the seed; on a GPU also what torch.compile makes of it,
    and the fastest that cuBLASLt has where the problem is one matrix product. None where the
    campaign's settings want none.
    """
    lines: dict[str, Solution] = {}
    if not created.settings.lines_to_beat:
        return lines
    if created.reference is not None:
        lines[REFERENCE] = created.reference
    if created.settings.device.startswith("cuda"):
        definition = created.problem.definition
        lines[COMPILED] = compiled_solution(definition)
        tuned = products.tuned_product(definition, TUNED) if _is_product(created) else None
        if tuned is not None:
            lines[TUNED] = tuned
    return lines


def line_detail(created: Created, name: str) -> str:
    """Say what a line to beat is."""
    if name == COMPILED:
        return "The reference through torch.compile, against the seed."
    if name == TUNED:
        return (
            f"The product through cuBLASLt, the fastest of up to {products.ALGORITHMS} algorithms as"
            " nvmath-python's autotune finds it for each shape, against the seed."
        )
    told = "The reference, run as a solution, against the seed."
    if created.settings.device.startswith("cuda") and _is_product(created):
        return f"{told} Its products are cuBLAS."
    return told


def compiled_solution(definition: Definition) -> Solution:
    """Return the definition's reference through torch.compile, as a value-returning solution."""
    return Solution(
        name=COMPILED,
        definition=definition.name,
        author="reference",
        spec=Spec(
            languages=["pytorch"],
            entry_point="compiled.py::run",
            destination_passing_style=False,
        ),
        sources=[SourceFile(path="compiled.py", content=definition.reference + _COMPILED_TAIL)],
    )


def _is_product(created: Created) -> bool:
    return created.operator_class in products.CLASSES
