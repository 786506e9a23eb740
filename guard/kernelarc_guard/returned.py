"""Reading what a stopped runner returned, and what became of its earlier results (imports torch)."""

import os
from dataclasses import dataclass

import torch

from kernelarc_guard import control
from kernelarc_guard.buffers import extent
from kernelarc_guard.dtypes import torch_dtype
from kernelarc_guard.faults import SolutionFault

Range = tuple[int, int]
"""Addresses [from, to) in the runner."""
Specs = dict[str, tuple[tuple[int, ...] | None, str]]
"""Output name -> shape (None for a Python scalar) and dtype."""

_SLACK = 1 << 20


@dataclass(frozen=True)
class _Result:
    """One returned tensor's memory, as it was when its call ended."""

    name: str
    at: Range
    content: torch.Tensor


class ReturnedResults:
    """The results of a value-returning runner."""

    def __init__(self, memory_fd: int, inputs: list[Range], mutable: list[Range]) -> None:
        """Read from `memory_fd`; results may lie in `mutable` inputs and in no other of `inputs`."""
        self._memory = memory_fd
        self._inputs = inputs
        self._mutable = mutable
        self._alive: list[_Result] = []
        self._last: list[_Result] = []

    def read(
        self, page: control.ControlPage, specs: Specs, workload: int, hold: bool
    ) -> dict[str, torch.Tensor]:
        """Return the last call's outputs; raises SolutionFault on a breach of the contract.

        `hold` says whether the runner keeps the results of earlier calls alive beyond this one.
        """
        _, _, count = page.read_report()
        if count != len(specs):
            raise SolutionFault(
                "bad_output_count", f"returned {count} outputs; expected {len(specs)}", workload
            )
        taken = list(self._inputs)
        outputs: dict[str, torch.Tensor] = {}
        results: list[_Result] = []
        for index, (name, (shape, dtype)) in enumerate(specs.items()):
            said = page.read_output(index)
            if shape is None:
                outputs[name] = scalar_tensor(name, said, dtype, workload)
                continue
            at = _checked(name, said, shape, dtype, taken, workload)
            self._refuse_reuse(name, at, workload)
            content = self._bytes(name, at, workload)
            results.append(_Result(name, at, content))
            # The stride of a dimension of one may be anything, 0 after `expand`; not all of torch
            # takes that.
            strides = [
                stride if size > 1 else 1 for size, stride in zip(shape, said.strides, strict=True)
            ]
            outputs[name] = content.view(torch_dtype(dtype)).as_strided(shape, strides)
            refuse_odd_bools(name, outputs[name], workload)
        self._alive = [*(self._alive if hold else []), *results]
        self._last = results
        return outputs

    def changed(self, workload: int) -> str | None:
        """Return which result is not what it was when its call ended, None where all are."""
        return self._changed(self._alive, workload)

    def _changed(self, results: list[_Result], workload: int) -> str | None:
        for one in results:
            if self._in(self._mutable, one.at):
                continue
            if not torch.equal(self._bytes(one.name, one.at, workload), one.content):
                return one.name
        return None

    def follows(self, workload: int) -> str | None:
        """Return which of the last call's results changes with what only the guard has written to.

        A shared mapping can be mapped again where no table of ours says that it is an input.
        """
        return self._changed(self._last, workload)

    def _refuse_reuse(self, name: str, at: Range, workload: int) -> None:
        if at[0] == at[1] or self._in(self._mutable, at):
            return
        if any(_overlap(at, one.at) for one in self._alive):
            raise SolutionFault(
                "stale_output",
                f"output {name!r} lies in the memory of an earlier call's result, which is "
                "still in use; return a new tensor from every call",
                workload,
            )

    def _in(self, ranges: list[Range], at: Range) -> bool:
        return any(low <= at[0] and at[1] <= high for low, high in ranges)

    def _bytes(self, name: str, at: Range, workload: int) -> torch.Tensor:
        address, nbytes = at[0], at[1] - at[0]
        data = bytearray(max(nbytes, 1))
        view, done = memoryview(data), 0
        while done < nbytes:
            try:
                got = os.preadv(self._memory, [view[done:nbytes]], address + done)
            except (OSError, OverflowError):
                got = 0
            if got == 0:
                raise SolutionFault(
                    "bad_output_type", f"output {name!r} points outside the process", workload
                )
            done += got
        return torch.frombuffer(data, dtype=torch.uint8)[:nbytes]


def refuse_odd_bools(name: str, output: torch.Tensor, workload: int) -> None:
    """Raise SolutionFault where a boolean output holds other bytes than 0 and 1.

    Torch compares, copies and counts such bytes in different ways; an output that was not written
    holds them too.
    """
    if output.dtype is torch.bool and bool(output.view(torch.uint8).gt(1).any()):
        raise SolutionFault(
            "bad_output_dtype",
            f"output {name!r} was not written, or not as bool: it holds other bytes than 0 and 1",
            workload,
        )


def _overlap(one: Range, other: Range) -> bool:
    return one[0] < other[1] and other[0] < one[1]


def _checked(
    name: str,
    said: control.Returned,
    shape: tuple[int, ...],
    dtype: str,
    taken: list[Range],
    workload: int,
) -> Range:
    """Return where a returned tensor lies once its claim keeps the contract; adds it to `taken`."""
    if said.kind != control.KIND_TENSOR:
        raise SolutionFault(
            "bad_output_type", f"output {name!r} is not a plain strided CPU tensor", workload
        )
    if said.shape != shape:
        raise SolutionFault(
            "bad_output_shape",
            f"output {name!r} is {list(said.shape)}; expected {list(shape)}",
            workload,
        )
    wanted = torch_dtype(dtype)
    if said.dtype != str(wanted).removeprefix("torch."):
        raise SolutionFault(
            "bad_output_dtype", f"output {name!r} is {said.dtype}; expected {dtype}", workload
        )
    count = 1
    for size in shape:
        count *= size
    span = extent(shape, said.strides)
    if min(said.strides, default=0) < 0 or span * wanted.itemsize > (
        16 * count * wanted.itemsize + _SLACK
    ):
        raise SolutionFault(
            "bad_output_type", f"output {name!r} has strides {list(said.strides)}", workload
        )
    if _share(shape, said.strides):
        raise SolutionFault("output_alias", f"elements of output {name!r} share memory", workload)
    at = (said.address, said.address + span * wanted.itemsize)
    if span and any(_overlap(at, other) for other in taken):
        raise SolutionFault(
            "output_alias", f"output {name!r} shares memory with an input or output", workload
        )
    taken.append(at)
    return at


def _share(shape: tuple[int, ...], strides: tuple[int, ...]) -> bool:
    """Say whether elements may share memory: some stride does not step over all that is below it."""
    reach = 0
    for stride, size in sorted(zip(strides, shape, strict=True)):
        if size > 1 and stride <= reach:
            return 0 not in shape
        reach += (size - 1) * stride if size > 1 else 0
    return False


def scalar_tensor(name: str, said: control.Returned, dtype: str, workload: int) -> torch.Tensor:
    """Return a claimed Python number as a tensor; raises SolutionFault where it is none."""
    if said.kind == control.KIND_FLOAT:
        value: float = control.scalar_double(said.bits)
    elif said.kind == control.KIND_INT:
        value = said.bits
    else:
        raise SolutionFault("bad_output_type", f"output {name!r} is not a Python number", workload)
    try:
        return torch.tensor(value, dtype=torch_dtype(dtype))
    except (ArithmeticError, RuntimeError, ValueError):
        raise SolutionFault(
            "bad_output_dtype", f"output {name!r} is {value}, which is no {dtype}", workload
        ) from None
