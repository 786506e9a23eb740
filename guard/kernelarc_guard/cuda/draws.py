"""Inputs made on a GPU, and its buffers and cache (imports torch)."""

from typing import Final

import torch

from kernelarc_guard.cuda import driver
from kernelarc_guard.cuda.buffers import CudaBuffers
from kernelarc_guard.draws import Drawer
from kernelarc_guard.problem import Problem

_L2_BYTES: Final = 38
"""CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE."""
_MOSTLY_FREE: Final = 0.7


class CudaDrawer(Drawer):
    """Draws inputs on a device, in the guard's own context."""

    def __init__(self, problem: Problem, evict_bytes: int | None, device: int) -> None:
        """Draw one sample per workload; eviction is of four times the L2 cache unless given."""
        self.device = device
        super().__init__(problem, 0, place=f"cuda:{device}")
        cache = driver.attribute(device, _L2_BYTES)
        self.evicted_bytes = 4 * cache if evict_bytes is None else evict_bytes
        self._ahead: list[list[CudaBuffers]] = []
        self._junk = torch.empty(self.evicted_bytes // 4, dtype=torch.int32, device=self.place)

    def on_device(self, workload: int) -> CudaBuffers:
        """Return new buffers for one arm, outputs included."""
        specs = {
            name: (shape, dtype)
            for name, (shape, dtype) in self.output_specs(workload).items()
            if shape is not None
        }
        return CudaBuffers(self._samples[workload], specs, self.device)

    def of_an_arm(self) -> list[CudaBuffers]:
        """Return new buffers of all workloads for one arm: nobody else was ever given them."""
        return self._ahead.pop() if self._ahead else [self.on_device(w) for w in self.indices]

    def make_ahead(self, arms: int) -> None:
        """Allocate the buffers of so many arms, as long as much of the device's memory is free."""
        while not self.thrifty and len(self._ahead) < arms:
            free, total = driver.free_bytes()
            if free < total * _MOSTLY_FREE:
                return
            self._ahead.append([self.on_device(w) for w in self.indices])

    def drop_ahead(self) -> None:
        """Give back what nobody took."""
        while self._ahead:
            for one in self._ahead.pop():
                one.close()

    def evict(self) -> None:
        """Write over more memory than the cache holds."""
        self._junk.fill_(1)
