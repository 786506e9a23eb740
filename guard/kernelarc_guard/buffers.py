"""Guard-owned buffers of one workload for one arm (imports torch).

One anonymous shared-memory file holds every tensor the runner is given, each between two canaries.
Only this file's descriptor is handed over, so a runner can map neither the other arm's buffers nor
the guard's expected values.
"""

import fcntl
import mmap
import os
import secrets
from dataclasses import dataclass
from typing import Any, Final

import torch

from kernelarc_guard.dtypes import torch_dtype

CANARY: Final = 256
"""Bytes of random pattern before and after each tensor."""
_ALIGN: Final = 256
POISON_INT: Final = 0x6B
"""Byte that fills integer outputs; floating outputs are filled with NaN."""


@dataclass(frozen=True)
class Slot:
    """One tensor inside the shared file."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    offset: int
    nbytes: int

    def describe(self) -> dict[str, Any]:
        """Return the JSON a runner needs to map it."""
        return {
            "dtype": self.dtype,
            "shape": self.shape,
            "strides": self.strides,
            "offset": self.offset,
        }


def dense(tensor: torch.Tensor) -> bool:
    """Say whether a tensor's elements fill its extent exactly once (any order of dimensions)."""
    return extent(tuple(tensor.shape), tuple(tensor.stride())) == tensor.numel()


def extent(shape: tuple[int, ...], strides: tuple[int, ...]) -> int:
    """Return how many elements lie between the first and the last one, both included."""
    if 0 in shape:
        return 0
    return 1 + sum((size - 1) * stride for size, stride in zip(shape, strides, strict=True))


class BufferSet:
    """The mapped inputs and, for destination-passing arms, outputs of one workload."""

    def __init__(
        self, inputs: dict[str, torch.Tensor], outputs: dict[str, tuple[tuple[int, ...], str]]
    ) -> None:
        """Lay out `inputs` (samples: shape, strides, dtype) and `outputs` (shape, dtype)."""
        at = 0
        self.inputs: dict[str, Slot] = {}
        self.outputs: dict[str, Slot] = {}
        for name, sample in inputs.items():
            sample = sample if dense(sample) else sample.contiguous()
            slot, at = _place(name, sample, at)
            self.inputs[name] = slot
        for name, (shape, dtype) in outputs.items():
            like = torch.empty(shape, dtype=torch_dtype(dtype), device="meta")
            slot, at = _place(name, like, at)
            self.outputs[name] = slot
        self.size = max(at + CANARY, mmap.PAGESIZE)
        self.fd = shared_file(self.size)
        self._map = mmap.mmap(self.fd, self.size)
        self._bytes = torch.frombuffer(self._map, dtype=torch.uint8)
        self._views = {
            slot.name: self._view(slot) for slot in (*self.inputs.values(), *self.outputs.values())
        }
        self._canaries = self._spans()
        self._pattern = torch.frombuffer(bytearray(secrets.token_bytes(CANARY)), dtype=torch.uint8)
        self._holds: dict[str, torch.Tensor] = {}

    def fill(
        self, inputs: dict[str, torch.Tensor], written: frozenset[str] = frozenset()
    ) -> list[str]:
        """Write a call's inputs, poison the outputs and renew the canaries.

        An input that is the very tensor written last is left alone, unless the solution may have
        `written` to it. Returns the names of the inputs that were rewritten.
        """
        rewritten = [n for n in self.inputs if n in written or self._holds.get(n) is not inputs[n]]
        for name in rewritten:
            self._views[name].copy_(inputs[name])
            self._holds[name] = inputs[name]
        for name, slot in self.outputs.items():
            view = self._views[name]
            if view.dtype.is_floating_point and view.element_size() > 1:
                view.fill_(float("nan"))
            else:
                self._bytes[slot.offset : slot.offset + slot.nbytes].fill_(POISON_INT)
        self._pattern = self._pattern.roll(1)
        for begin, end in self._canaries:
            self._bytes[begin:end] = self._pattern[: end - begin]
        return rewritten

    def broken_canary(self) -> str | None:
        """Return which tensor's surroundings were written over, or None."""
        for begin, end in self._canaries:
            if not torch.equal(self._bytes[begin:end], self._pattern[: end - begin]):
                near = [
                    slot.name
                    for slot in (*self.inputs.values(), *self.outputs.values())
                    if slot.offset - CANARY <= begin <= slot.offset + slot.nbytes + _ALIGN
                ]
                return near[0] if near else "a buffer"
        return None

    def changed_inputs(self, inputs: dict[str, torch.Tensor]) -> list[str]:
        """Return the inputs whose bytes are not what was filled in."""
        return [
            name
            for name in self.inputs
            if not torch.equal(_raw(self._views[name]), _raw(_like(inputs[name], self, name)))
        ]

    def describe(self) -> dict[str, Any]:
        """Return the JSON a runner needs to map it."""
        return {
            "inputs": {n: s.describe() for n, s in self.inputs.items()},
            "outputs": {n: s.describe() for n, s in self.outputs.items()},
        }

    def output(self, name: str) -> torch.Tensor:
        """Return the guard's view of a destination-passing output."""
        return self._views[name]

    def close(self) -> None:
        """Release the memory; views taken before keep their mapping until they are dropped."""
        self._views.clear()
        self._holds.clear()
        os.close(self.fd)

    def _view(self, slot: Slot) -> torch.Tensor:
        dtype = torch_dtype(slot.dtype)
        flat = self._bytes[slot.offset : slot.offset + slot.nbytes].view(dtype)
        return flat.as_strided(slot.shape, slot.strides)

    def _spans(self) -> list[tuple[int, int]]:
        slots = sorted((*self.inputs.values(), *self.outputs.values()), key=lambda s: s.offset)
        spans = []
        for slot in slots:
            spans.append((slot.offset - CANARY, slot.offset))
            spans.append((slot.offset + slot.nbytes, slot.offset + slot.nbytes + CANARY))
        return spans


def shared_file(size: int) -> int:
    """Return an anonymous file of a size that nobody can change.

    A mapping in Python keeps a descriptor of its own, so a runner has one; a file cut short would end
    whoever else has it mapped.
    """
    fd = os.memfd_create("kernelarc", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    os.ftruncate(fd, size)
    fcntl.fcntl(fd, fcntl.F_ADD_SEALS, fcntl.F_SEAL_GROW | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_SEAL)
    return fd


def _place(name: str, sample: torch.Tensor, at: int) -> tuple[Slot, int]:
    offset = -(-(at + CANARY) // _ALIGN) * _ALIGN
    nbytes = sample.numel() * sample.element_size()
    slot = Slot(
        name=name,
        dtype=str(sample.dtype).removeprefix("torch."),
        shape=tuple(sample.shape),
        strides=tuple(sample.stride()),
        offset=offset,
        nbytes=nbytes,
    )
    return slot, offset + nbytes + CANARY


def _like(tensor: torch.Tensor, owner: BufferSet, name: str) -> torch.Tensor:
    slot = owner.inputs[name]
    if tuple(tensor.stride()) == slot.strides:
        return tensor
    return torch.empty_strided(slot.shape, slot.strides, dtype=tensor.dtype).copy_(tensor)


def same_bits(one: torch.Tensor, other: torch.Tensor) -> bool:
    """Say whether two tensors of one shape and dtype hold the same bits; NaNs are compared too."""
    flat = [t.contiguous().reshape(-1).view(torch.uint8) for t in (one, other)]
    return torch.equal(*flat)


def _raw(tensor: torch.Tensor) -> torch.Tensor:
    """Return a dense tensor's bytes in storage order, so that NaNs compare by their bits."""
    flat = torch.as_strided(tensor, (tensor.numel(),), (1,))
    return flat.view(torch.uint8) if flat.dtype is not torch.bool else flat.to(torch.uint8)
