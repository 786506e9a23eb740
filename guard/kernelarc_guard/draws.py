"""What one call is given: fresh inputs, buffer layouts and cache eviction (imports torch)."""

import secrets
from dataclasses import dataclass

import torch

from kernelarc_guard.buffers import BufferSet
from kernelarc_guard.cores import largest_cache
from kernelarc_guard.dtypes import stored_shape
from kernelarc_guard.inputs import Value, make_inputs
from kernelarc_guard.problem import Problem


@dataclass(frozen=True)
class Draw:
    """The inputs of one call."""

    seed: int
    inputs: dict[str, Value]

    @property
    def tensors(self) -> dict[str, torch.Tensor]:
        """Return the tensor inputs."""
        return {n: v for n, v in self.inputs.items() if isinstance(v, torch.Tensor)}

    @property
    def scalars(self) -> list[bool | int | float]:
        """Return the Python scalars in the order of the call."""
        return [v for v in self.inputs.values() if not isinstance(v, torch.Tensor)]


class Drawer:
    """Draws inputs for a problem's workloads and knows the layout they need."""

    def __init__(self, problem: Problem, evict_bytes: int | None) -> None:
        """Draw one sample per workload to learn shapes and strides."""
        definition = problem.definition
        self._problem = problem
        self.indices = range(len(problem.workloads))
        self.order = list(definition.inputs)
        self.mutable = frozenset(definition.kernelarc.mutable_inputs)
        self.threads = definition.kernelarc.threads
        self._samples = [self.draw(index).tensors for index in self.indices]
        self._outputs = [self._specs(workload.axes) for workload in problem.workloads]
        self.scalar_outputs = [n for n, spec in definition.outputs.items() if spec.shape is None]
        size = largest_cache() * 3 // 2 if evict_bytes is None else evict_bytes
        # Ones, not zeros: pages that were never written are all the same page of zeros.
        self._evict = torch.ones(size // 8, dtype=torch.int64)

    def draw(self, workload: int) -> Draw:
        """Return inputs from a fresh seed of the operating system."""
        seed = secrets.randbits(63)
        return Draw(seed, self._make(workload, seed))

    def _specs(self, axes: dict[str, int]) -> dict[str, tuple[tuple[int, ...] | None, str]]:
        definition = self._problem.definition
        resolved = definition.resolve(axes)
        specs: dict[str, tuple[tuple[int, ...] | None, str]] = {}
        for name, spec in definition.outputs.items():
            shape = definition.output_shape(name, resolved)
            specs[name] = (None if shape is None else stored_shape(spec, shape), spec.dtype)
        return specs

    def _make(self, workload: int, seed: int) -> dict[str, Value]:
        problem = self._problem
        return make_inputs(
            problem.definition, problem.workloads[workload], seed, folder=problem.folder
        )

    def output_specs(self, workload: int) -> dict[str, tuple[tuple[int, ...] | None, str]]:
        """Return each output's shape (None for a Python scalar) and dtype."""
        return self._outputs[workload]

    def buffers(self, workload: int, outputs: bool) -> BufferSet:
        """Return new buffers for one arm; without `outputs` the solution returns its own."""
        specs = {
            name: (shape, dtype)
            for name, (shape, dtype) in self._outputs[workload].items()
            if outputs and shape is not None
        }
        return BufferSet(self._samples[workload], specs)

    def elements(self, workload: int) -> int:
        """Return the number of input elements, a measure of size."""
        return sum(tensor.numel() for tensor in self._samples[workload].values())

    def evict(self) -> None:
        """Read through more memory than the caches hold."""
        self._evict.sum()
