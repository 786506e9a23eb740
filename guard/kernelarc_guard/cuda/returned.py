"""What a value-returning solution on a GPU says it returned: its runner copied it to the guard's memory."""

from kernelarc_guard import control
from kernelarc_guard.dtypes import torch_dtype
from kernelarc_guard.faults import SolutionFault
from kernelarc_guard.returned import Specs


def check_returned(page: control.ControlPage, specs: Specs, workload: int) -> None:
    """Raise SolutionFault where what was returned does not keep the contract."""
    _, _, count = page.read_report()
    if count != len(specs):
        raise SolutionFault(
            "bad_output_count", f"returned {count} outputs; expected {len(specs)}", workload
        )
    for index, (name, (shape, dtype)) in enumerate(specs.items()):
        said = page.read_output(index)
        if shape is None:
            continue
        if said.kind != control.KIND_TENSOR:
            raise SolutionFault(
                "bad_output_type", f"output {name!r} is not a plain strided CUDA tensor", workload
            )
        if said.shape != shape:
            raise SolutionFault(
                "bad_output_shape",
                f"output {name!r} is {list(said.shape)}; expected {list(shape)}",
                workload,
            )
        wanted = str(torch_dtype(dtype)).removeprefix("torch.")
        if said.dtype != wanted:
            raise SolutionFault(
                "bad_output_dtype", f"output {name!r} is {said.dtype}; expected {dtype}", workload
            )
