"""Which family serves which problem."""

from collections.abc import Sequence
from typing import Final

from kernelfamilies import causal_conv, matmul, rmsnorm, rmsnorm_gpu, small_matmul, softmax, topk
from kernelfamilies.family import Family

FAMILIES: Final[dict[str, tuple[Family, int, int]]] = {
    "rmsnorm": (rmsnorm.FAMILY, 2, 1),
    "softmax": (softmax.FAMILY, 1, 1),
    "matmul_residual": (matmul.FAMILY, 3, 1),
    "small_matmul": (small_matmul.FAMILY, 3, 1),
    "causal_conv": (causal_conv.FAMILY, 3, 1),
    "topk": (topk.FAMILY, 1, 2),
}
"""Start of a problem's name -> its family, and how many tensors go in and come out; on a CPU."""

GPU_FAMILIES: Final[dict[str, tuple[Family, int, int]]] = {
    "rmsnorm": (rmsnorm_gpu.FAMILY, 2, 1),
}
"""The same on an NVIDIA GPU."""


def family_for(
    problem: str, inputs: Sequence[str], outputs: Sequence[str], device: str = "cpu"
) -> Family | None:
    """Return the family for a problem by name, interface and device, None where there is none."""
    known = FAMILIES if device.startswith("cpu") else GPU_FAMILIES
    for name, (family, takes, returns) in known.items():
        if problem.startswith(name) and (len(inputs), len(outputs)) == (takes, returns):
            return family
    return None
