"""Counting what a problem's reference does: matrix operations by dtype (imports torch).

The reference runs on tensors without values where it can, so that no shape is too large; where it
looks at values it runs for real. Operators that are no matrix product or convolution are told apart:
how many of them a clever kernel needs nobody can count, so no bound rests on them.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_flatten
from torch.utils.flop_counter import flop_registry

from kernelarc_guard.dtypes import stored_shape, torch_dtype
from kernelarc_guard.faults import Refused
from kernelarc_guard.inputs import InputError, Value, make_inputs
from kernelarc_guard.inquiries import WorkCount
from kernelarc_guard.problem import Problem
from kernelarc_guard.reference import FAILURES, load_reference, one_line
from kernelarc_guard.rulers import traffic
from kernelarc_guard.workload import RANDOM, Workload

MOST_BYTES: Final = 256 << 20
"""A workload with more than this is not run on a CPU only to be counted; on a GPU with 16 times it."""
_SEED: Final = 0
_RESHAPES: Final = ("_unsafe_view", "_reshape_alias", "empty", "empty_like", "new_empty")
"""They compute nothing, and yet are no views."""


class Counter(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Counts the operators that run below it."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.matrix: dict[str, int] = {}
        """Dtype of the operands -> operations, a multiply-add being two."""
        self.other = 0
        """Elements that all other operators gave."""

    def __torch_dispatch__(
        self,
        func: Any,
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        """Run one operator and count it."""
        given = dict(kwargs or {})
        packet = func._overloadpacket
        if packet not in flop_registry:
            # What is made of others is counted by its parts.
            with self:
                parts = func.decompose(*args, **given)
            if parts is not NotImplemented:
                return parts
        out = func(*args, **given)
        if packet in flop_registry:
            operands = [one for one in tree_flatten((args, given))[0] if _is_floating(one)]
            dtype = str(operands[-1].dtype).removeprefix("torch.") if operands else "float32"
            counted = int(flop_registry[packet](*args, **given, out_val=out))
            self.matrix[dtype] = self.matrix.get(dtype, 0) + counted
        elif not func.is_view and packet.__name__ not in _RESHAPES:
            tensors = [one for one in tree_flatten(out)[0] if isinstance(one, torch.Tensor)]
            self.other += sum(one.numel() for one in tensors if one.dtype.is_floating_point)
        return out


def count_work(problem: Problem, place: str) -> list[WorkCount]:
    """Return the bytes and operations of each workload; Refused where the reference does not load."""
    try:
        run = load_reference(problem.definition.reference).run
    except FAILURES as error:
        raise Refused(f"reference: cannot be loaded: {one_line(error)}") from None
    moved = traffic(problem)
    return [
        _count(problem, workload, run, place, *both)
        for workload, both in zip(problem.workloads, moved, strict=True)
    ]


def _count(
    problem: Problem,
    workload: Workload,
    run: Callable[..., Any],
    place: str,
    read: int,
    written: int,
) -> WorkCount:
    counter, how = _counted(problem, workload, run, place, read + written)
    return WorkCount(
        uuid=workload.uuid,
        read_bytes=read,
        written_bytes=written,
        operations=None if counter is None else counter.matrix,
        other_operations=None if counter is None else counter.other,
        how=how,
    )


def _counted(
    problem: Problem, workload: Workload, run: Callable[..., Any], place: str, moved: int
) -> tuple[Counter | None, str]:
    try:
        return _run(run, _without_values(problem, workload)), "the reference on shapes alone"
    except (*FAILURES, InputError) as error:
        why = one_line(error)
    most = MOST_BYTES if place == "cpu" else 16 * MOST_BYTES
    if moved > most:
        return None, (
            f"not counted: the reference needs values ({why}), and this workload's {moved} bytes"
            f" are more than the {most} that are run only to count"
        )
    try:
        inputs = make_inputs(
            problem.definition, workload, _SEED, folder=problem.folder, device=place
        )
        return _run(run, inputs), "the reference on one draw of values"
    except (*FAILURES, InputError) as error:
        return None, f"not counted: the reference raised {one_line(error)}"


def _run(run: Callable[..., Any], inputs: Mapping[str, Value]) -> Counter:
    counter = Counter()
    with torch.no_grad(), counter:
        run(*inputs.values())
    return counter


def _without_values(problem: Problem, workload: Workload) -> dict[str, Value]:
    """Return inputs that have shapes and dtypes only; InputError where a scalar is not known."""
    definition = problem.definition
    resolved = definition.resolve(workload.axes)
    made: dict[str, Value] = {}
    for name, spec in definition.inputs.items():
        shape = definition.input_shape(name, resolved)
        given = workload.inputs.get(name, RANDOM)
        if shape is not None:
            dtype = torch_dtype(spec.dtype)
            made[name] = torch.empty(stored_shape(spec, shape), dtype=dtype, device="meta")
        elif given.value is not None:
            made[name] = given.value
        else:
            raise InputError(f"input {name}: its value is drawn")
    return made


def _is_floating(one: Any) -> bool:
    return isinstance(one, torch.Tensor) and one.dtype.is_floating_point
