"""Inputs made on a GPU, and its buffers and cache (imports torch)."""

from typing import Final

import torch

from kernelarc_guard.cuda import driver
from kernelarc_guard.cuda.buffers import CudaBuffers
from kernelarc_guard.draws import Drawer
from kernelarc_guard.problem import Problem

_L2_BYTES: Final = 38
"""CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE."""


class CudaDrawer(Drawer):
    """Draws inputs on a device, in the guard's own context."""

    def __init__(self, problem: Problem, evict_bytes: int | None, device: int) -> None:
        """Draw one sample per workload; eviction is of four times the L2 cache unless given."""
        self.device = device
        super().__init__(problem, 0, place=f"cuda:{device}")
        cache = driver.attribute(device, _L2_BYTES)
        self.evicted_bytes = 4 * cache if evict_bytes is None else evict_bytes
        self._junk = torch.empty(self.evicted_bytes // 4, dtype=torch.int32, device=self.place)

    def on_device(self, workload: int) -> CudaBuffers:
        """Return new buffers for one arm, outputs included."""
        specs = {
            name: (shape, dtype)
            for name, (shape, dtype) in self.output_specs(workload).items()
            if shape is not None
        }
        return CudaBuffers(self._samples[workload], specs, self.device)

    def evict(self) -> None:
        """Write over more memory than the cache holds."""
        self._junk.fill_(1)
