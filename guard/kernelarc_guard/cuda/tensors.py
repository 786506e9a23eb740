"""Device memory of an allocation as a torch tensor (imports torch)."""

from typing import Any

import torch

from kernelarc_guard.cuda.driver import Allocation


class _Raw:
    """What torch wraps without copying."""

    def __init__(self, allocation: Allocation) -> None:
        self.__cuda_array_interface__: dict[str, Any] = {
            "shape": (allocation.size,),
            "typestr": "|u1",
            "data": (allocation.address, False),
            "version": 2,
        }


def as_bytes(allocation: Allocation, device: int) -> torch.Tensor:
    """Return the bytes of an allocation; it must outlive the tensor."""
    return torch.as_tensor(_Raw(allocation), device=f"cuda:{device}")
