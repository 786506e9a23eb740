"""What torch says of a GPU that other GPUs of its model have alike (imports torch)."""

from functools import lru_cache
from typing import Final

import torch

_NAMES: Final = (
    "name",
    "major",
    "minor",
    "total_memory",
    "multi_processor_count",
    "warp_size",
    "max_threads_per_multi_processor",
    "regs_per_multiprocessor",
    "shared_memory_per_block",
    "shared_memory_per_block_optin",
    "shared_memory_per_multiprocessor",
    "L2_cache_size",
)
"""Some are missing in some versions."""


@lru_cache
def properties_of(place: str) -> dict[str, int | str]:
    """Return what torch tells solutions of a device, as in ``cuda:0``; nothing of the host."""
    if not place.startswith("cuda"):
        return {}
    said = torch.cuda.get_device_properties(place)
    return {name: getattr(said, name) for name in _NAMES if hasattr(said, name)}
