"""What one call is given: fresh inputs, buffer layouts and cache eviction (imports torch)."""

import secrets
from collections.abc import Iterator
from dataclasses import dataclass

import torch

from kernelarc_guard.buffers import BufferSet
from kernelarc_guard.cores import largest_cache
from kernelarc_guard.dtypes import stored_shape
from kernelarc_guard.inputs import Value, make_inputs
from kernelarc_guard.output_counts import OutputCounts
from kernelarc_guard.problem import Problem
from kernelarc_guard.rewriting import Part, partly
from kernelarc_guard.variety import Variety

_SELDOM = 8
"""Static inputs change at one call in so many."""


@dataclass(frozen=True, eq=False)
class Draw:
    """The inputs of one call. An input that did not change is the same tensor as before."""

    inputs: dict[str, Value]
    kind: str = "own"
    """Where the values come from, for messages."""
    other: bool = False
    """Are they not those that the workload itself draws, for which its tolerance was stated?"""

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

    def __init__(self, problem: Problem, evict_bytes: int | None, *, place: str = "cpu") -> None:
        """Draw one sample per workload to learn shapes and strides; `place` is where inputs are."""
        self.place = place
        definition = problem.definition
        self._problem = problem
        self.indices = range(len(problem.workloads))
        self.order = list(definition.inputs)
        self.mutable = frozenset(definition.kernelarc.mutable_inputs)
        self.static = frozenset(definition.kernelarc.static_inputs) - self.mutable
        self.threads = definition.kernelarc.threads
        self.thrifty = False
        """Are there no copies to be made of what was drawn and returned?"""
        self._static: dict[int, dict[str, Value]] = {}
        self._samples: list[dict[str, torch.Tensor]] = []
        """Layouts, without memory, of each workload's inputs."""
        self.variety = Variety(problem, self._look_at_samples())
        self.counts = OutputCounts(definition)
        """How many outputs each solution gives."""
        self._outputs = [self._specs(workload.axes) for workload in problem.workloads]
        self.scalar_outputs = [n for n, spec in definition.outputs.items() if spec.shape is None]
        size = largest_cache() * 3 // 2 if evict_bytes is None else evict_bytes
        self.evicted_bytes = size
        # Ones, not zeros: pages that were never written are all the same page of zeros.
        self._evict = torch.ones(size // 8, dtype=torch.int64)

    def draw(self, workload: int) -> Draw:
        """Return inputs from a fresh seed of the operating system; static ones change seldom."""
        return Draw(self._make(workload) | self._statics(workload))

    def fresh(self, workload: int) -> Draw:
        """Return inputs that are all new, the static ones too."""
        self._static.pop(workload, None)
        return self.draw(workload)

    def aside(self, workload: int) -> Draw:
        """Return own inputs for no call: what the next one has of the static inputs stays open."""
        return Draw(self._make(workload))

    def like(self, workload: int, sibling: int) -> Draw:
        """Return inputs that another workload of the same shapes draws; static ones stay."""
        uuid = self._problem.workloads[sibling].uuid
        return Draw(
            self._make(sibling) | self._kept(workload), f"values of workload {uuid}", other=True
        )

    def derived(self, workload: int, kind: str, statics: bool) -> Draw:
        """Return inputs of which some have values of another kind.

        Static ones stay, or with `statics` are new too, for this call and again for the next.
        """
        own, keep = self._make(workload), frozenset[str]()
        if statics:
            self._static.pop(workload, None)
        else:
            own, keep = own | (self._kept(workload) or self._statics(workload)), self.static
        return Draw(self.variety.derive(workload, own, kind, keep), f"{kind} values", other=True)

    def spiked(self, workload: int, name: str) -> Draw:
        """Return own inputs with a few elements of one far from usual; a static one for one call."""
        own = self._make(workload) | (self._kept(workload) or self._statics(workload))
        if name in self.static:
            self._static.pop(workload, None)
        others = frozenset(own) - {name}
        return Draw(
            self.variety.derive(workload, own, "spiked", others),
            f"spiked values of {name}",
            other=True,
        )

    def unsettled(self, workload: int) -> bool:
        """Say whether the workload's static inputs are new in its next draw."""
        return bool(self.static) and workload not in self._static

    def part(self, workload: int, before: Draw, part: Part, only: str | None = None) -> Draw | None:
        """Return a draw that differs from the one before in a part of one input, if one may.

        The input is `only` or one drawn at random.
        """
        fresh = self._make(workload)
        names = [only] if only else list(before.tensors)
        while names:
            name = names.pop(secrets.randbelow(len(names)))
            mixed = partly(before.tensors[name], _tensor(fresh[name]), part)
            if mixed is not None:
                if name in self._kept(workload):
                    self._static[workload][name] = mixed
                kind = f"some {part} of {name} rewritten"
                return Draw(before.inputs | {name: mixed}, kind, other=before.other)
        return None

    def rewritten(self, before: Draw) -> Draw:
        """Return a draw of equal values, to be written anew: the same work for the memory."""
        return Draw(
            {
                name: value.clone()
                if isinstance(value, torch.Tensor) and name not in self.static
                else value
                for name, value in before.inputs.items()
            },
            before.kind,
            before.other,
        )

    def _look_at_samples(self) -> Iterator[dict[str, Value]]:
        """Yield a draw of each workload, one after the other: all at once may be too large."""
        for index in self.indices:
            sample = self._make(index)
            self._samples.append({n: _layout(one) for n, one in Draw(sample).tensors.items()})
            yield sample

    def _kept(self, workload: int) -> dict[str, Value]:
        return self._static.get(workload, {})

    def _statics(self, workload: int) -> dict[str, Value]:
        if not self.static:
            return {}
        kept = self._static.get(workload)
        if kept is None or secrets.randbelow(_SELDOM) == 0:
            fresh = self._make(workload)
            kept = {name: self._next(name, fresh, kept) for name in self.static}
            self._static[workload] = kept
        return kept

    def _next(self, name: str, fresh: dict[str, Value], kept: dict[str, Value] | None) -> Value:
        """Return a static input's next value: new, or the old one with a part rewritten."""
        new, old = fresh[name], kept and kept[name]
        if isinstance(new, torch.Tensor) and isinstance(old, torch.Tensor) and secrets.randbits(1):
            mixed = partly(old, new, "rows" if secrets.randbits(1) else "elements")
            return new if mixed is None else mixed
        return new

    def _make(self, workload: int) -> dict[str, Value]:
        problem = self._problem
        return make_inputs(
            problem.definition,
            problem.workloads[workload],
            secrets.randbits(63),
            folder=problem.folder,
            device=self.place,
        )

    def _specs(self, axes: dict[str, int]) -> dict[str, tuple[tuple[int, ...] | None, str]]:
        definition = self._problem.definition
        resolved = definition.resolve(axes)
        specs: dict[str, tuple[tuple[int, ...] | None, str]] = {}
        for name, spec in definition.outputs.items():
            shape = definition.output_shape(name, resolved)
            specs[name] = (None if shape is None else stored_shape(spec, shape), spec.dtype)
        return specs

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


def _layout(tensor: torch.Tensor) -> torch.Tensor:
    return torch.empty_strided(
        tuple(tensor.shape), tensor.stride(), dtype=tensor.dtype, device="meta"
    )


def _tensor(value: Value) -> torch.Tensor:
    assert isinstance(value, torch.Tensor)
    return value
