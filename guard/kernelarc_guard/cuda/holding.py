"""Whose fault it is where the guard's own work finds no memory on the device (imports torch)."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import torch

from kernelarc_guard.cuda import driver
from kernelarc_guard.faults import Refused, SolutionFault

_SHARE: Final = 4
"""What others hold is to blame where it is more than one part in so many of the device."""


@contextmanager
def holding(workload: int | None) -> Iterator[None]:
    """Raise SolutionFault where memory ran out that a runner holds, Refused where it just ran out."""
    try:
        yield
    except torch.OutOfMemoryError as error:
        raise _verdict(str(error).splitlines()[0], workload) from None
    except driver.CudaError as error:
        if error.status != driver.OUT_OF_MEMORY:
            raise
        raise _verdict(str(error), workload) from None


def _verdict(error: str, workload: int | None) -> SolutionFault | Refused:
    free, total = driver.free_bytes()
    own = torch.cuda.memory_reserved() + driver.Allocation.created_bytes
    elsewhere = total - free - own
    torch.cuda.empty_cache()
    told = (
        f"of the device's {total >> 20} MiB the guard holds {own >> 20}, other processes "
        f"{elsewhere >> 20}, and {free >> 20} are free"
    )
    if elsewhere * _SHARE > total:
        return SolutionFault(
            "limit_passed", f"it leaves no memory for checking its answer: {told}", workload
        )
    return Refused(f"the device's memory does not hold this problem's check ({error}): {told}")
