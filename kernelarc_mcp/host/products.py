"""Problems that are one matrix product, and the fastest that cuBLASLt has for them."""

from typing import Final

from kernelarc_guard.definition import Definition
from kernelarc_guard.solution import Solution, SourceFile, Spec

CLASSES: Final = frozenset({"gemm", "matmul", "linear", "bmm"})
"""Operator classes whose problems may be one product."""
ALGORITHMS: Final = 16
"""How many of the algorithms that cuBLASLt's heuristics name are timed, where they name as many."""
_DTYPES: Final = frozenset({"bfloat16", "float16", "float32"})
_SOURCE: Final = '''"""One matrix product: the fastest of what cuBLASLt's heuristics name, timed when a shape first comes."""

import torch
from cuda.core import system
from nvmath.linalg.advanced import Matmul, MatmulReductionScheme

# nvmath asks NVML for this and nothing else; in a sandbox NVML may not say it.
system.get_num_devices = torch.cuda.device_count
_OPTIONS = {{"inplace": True, "memory_limit": 64 << 20}}
# Parts of a sum are added as float32, never as what the result is stored in.
_PREFERENCES = {{
    "limit": {algorithms},
    "reduction_scheme_mask": MatmulReductionScheme.COMPUTE_TYPE,
}}
_tuned = {{}}


def run(first, second, output):
    # Transposed, as torch asks for it too: cuBLAS counts by columns.
    left, right, result = {left}, {right}, {result}
    shapes = left.shape, right.shape
    product = _tuned.get(shapes)
    if product is None:
        product = Matmul(left, right, c=result, beta=0.0, options=_OPTIONS)
        product.plan(preferences=_PREFERENCES)
        product.autotune(iterations=3)
        _tuned[shapes] = product
    else:
        product.reset_operands(a=left, b=right, c=result)
    product.execute()
'''


def tuned_product(definition: Definition, name: str) -> Solution | None:
    """Return the product that the definition's axes declare by an autotuned cuBLASLt, as a solution.

    None where the problem is no product of its two inputs, or its axes leave open which one. Only the
    axes are looked at: whether the reference is that product is for the guard to find.
    """
    operands = _operands(definition)
    if operands is None:
        return None
    left, right, result = map(_transposed, operands)
    source = _SOURCE.format(left=right, right=left, result=result, algorithms=ALGORITHMS)
    return Solution(
        name=name,
        definition=definition.name,
        author="nvmath-python",
        spec=Spec(languages=["pytorch"], entry_point="product.py::run"),
        sources=[SourceFile(path="product.py", content=source)],
    )


def _transposed(operand: str) -> str:
    return operand.removesuffix(".mT") if operand.endswith(".mT") else f"{operand}.mT"


def _operands(definition: Definition) -> tuple[str, str, str] | None:
    """Return what is multiplied and what is filled, in words of the arguments; None: no one product."""
    keys = definition.kernelarc
    specs = [*definition.inputs.values(), *definition.outputs.values()]
    if len(definition.inputs) != 2 or len(specs) != 3 or keys.mutable_inputs or keys.compared_as:
        return None
    if len({spec.dtype for spec in specs}) > 1 or specs[0].dtype not in _DTYPES:
        return None
    first, second, out = (spec.shape or [] for spec in specs)
    if len(out) < 2 or any(len(set(shape)) < len(shape) for shape in (first, second, out)):
        return None
    if len(first) == len(out) > 2 and len(second) == 2 and first[:-1] == out[:-1]:
        # All but the last axis of the first input are the rows of one matrix.
        rows, result = (f"{one}.view(-1, {one}.shape[-1])" for one in ("first", "output"))
        found = _ordered((rows, ["", first[-1]]), ("second", second), ["", out[-1]])
    elif first[:-2] == second[:-2] == out[:-2]:
        result = "output"
        found = _ordered(("first", first[-2:]), ("second", second[-2:]), out[-2:])
    else:
        return None
    return None if found is None else (*found, result)


def _ordered(
    left: tuple[str, list[str]], right: tuple[str, list[str]], out: list[str]
) -> tuple[str, str] | None:
    """Return both operands, in order and transposed as their axes and the result's ask for."""
    row, column = out
    if row in right[1]:
        left, right = right, left
    inner = next((axis for axis in left[1] if axis != row), column)
    if inner == column:
        return None  # nothing is summed over
    lefts = {(row, inner): left[0], (inner, row): f"{left[0]}.mT"}
    rights = {(inner, column): right[0], (column, inner): f"{right[0]}.mT"}
    found = lefts.get(_pair(left[1])), rights.get(_pair(right[1]))
    return None if found[0] is None or found[1] is None else (found[0], found[1])


def _pair(axes: list[str]) -> tuple[str, str]:
    return (axes[0], axes[1]) if len(axes) == 2 else ("", "")
