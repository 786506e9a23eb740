"""Guard-owned device memory of one workload for one arm (imports torch).

Every tensor is an allocation of its own between two canaries. A runner is given the descriptors of
its own arm's alone. It maps inputs read-only; one that imports a descriptor again can map it writable
(tried), so the guard compares them after each call all the same.
"""

import os
import secrets
from functools import lru_cache
from typing import Any, Final

import torch

from kernelarc_guard.buffers import CANARY, POISON_INT, Slot, dense
from kernelarc_guard.cuda.driver import Allocation
from kernelarc_guard.cuda.tensors import as_bytes
from kernelarc_guard.dtypes import torch_dtype

_POOL: Final = 1 << 16
"""Random bytes that canaries are cut from, elsewhere for every call."""


@lru_cache
def _random_bytes(place: str) -> torch.Tensor:
    """Return bytes for the canaries of all buffers on a device."""
    return torch.frombuffer(bytearray(secrets.token_bytes(_POOL)), dtype=torch.uint8).to(place)


class CudaBuffers:
    """The inputs and outputs of one workload in the guard's memory."""

    def __init__(
        self,
        inputs: dict[str, torch.Tensor],
        outputs: dict[str, tuple[tuple[int, ...], str]],
        device: int,
    ) -> None:
        """Allocate `inputs` (samples: shape, strides, dtype) and `outputs` (shape, dtype)."""
        self.inputs = {
            name: _slot(name, sample if dense(sample) else sample.contiguous())
            for name, sample in inputs.items()
        }
        self.outputs = {
            name: _slot(name, torch.empty(shape, dtype=torch_dtype(dtype), device="meta"))
            for name, (shape, dtype) in outputs.items()
        }
        self._place = f"cuda:{device}"
        self._memory = {
            slot.name: Allocation.create(slot.nbytes + 2 * CANARY, device) for slot in self._slots()
        }
        self._raw = {name: as_bytes(one, device) for name, one in self._memory.items()}
        self._views = {slot.name: _view(self._raw[slot.name], slot) for slot in self._slots()}
        self._canaries = [one for slot in self._slots() for one in self._around(slot)]
        self._pool = _random_bytes(self._place)
        self._pattern = self._pool[:CANARY]
        self._holds: dict[str, torch.Tensor] = {}
        self._next: dict[str, torch.Tensor] = {}

    def describe(self) -> dict[str, Any]:
        """Return the JSON a runner needs to map it, in the order of `export`."""
        return {
            part: {n: s.describe() | {"bytes": self._memory[n].size} for n, s in slots.items()}
            for part, slots in (("inputs", self.inputs), ("outputs", self.outputs))
        }

    def export(self) -> list[int]:
        """Return new descriptors of all allocations, inputs first."""
        fds: list[int] = []
        try:
            fds.extend(self._memory[slot.name].export() for slot in self._slots())
        except BaseException:
            for fd in fds:
                os.close(fd)
            raise
        return fds

    def prepare(
        self, inputs: dict[str, torch.Tensor], written: frozenset[str] = frozenset()
    ) -> list[str]:
        """Poison the outputs, renew the canaries and note which inputs `deliver` will write.

        An input that is the very tensor written last is left alone, unless the solution may have
        `written` to it. Returns the names of the inputs that will be rewritten.
        """
        rewritten = [n for n in self.inputs if n in written or self._holds.get(n) is not inputs[n]]
        self._next = {name: inputs[name] for name in rewritten}
        for name in self.outputs:
            view = self._views[name]
            if view.dtype.is_floating_point and view.element_size() > 1:
                view.fill_(float("nan"))
            else:
                self._data(name).fill_(POISON_INT)
        at = secrets.randbelow(_POOL - CANARY)
        self._pattern = self._pool[at : at + CANARY]
        # One launch for all of them.
        torch._foreach_copy_(self._canaries, [self._pattern] * len(self._canaries))
        return rewritten

    def deliver(self) -> None:
        """Queue the copies of the prepared inputs; the window has begun."""
        for name, tensor in self._next.items():
            self._views[name].copy_(tensor, non_blocking=True)
            self._holds[name] = tensor

    def forget(self) -> None:
        """Keep no draw alive: every input will be written again."""
        self._holds.clear()
        self._next.clear()

    def pending_bytes(self) -> int:
        """Return how many bytes `deliver` writes."""
        return sum(self.inputs[name].nbytes for name in self._next)

    def broken_canary(self) -> str | None:
        """Return which tensor's surroundings were written over, or None."""
        differs = torch.stack(self._canaries) != self._pattern
        if not bool(differs.any()):
            return None
        broken = int(differs.any(-1).nonzero()[0])
        return self._slots()[broken // 2].name

    def changed_inputs(self, inputs: dict[str, torch.Tensor]) -> list[str]:
        """Return the inputs whose bytes are not what was filled in."""
        differs = [self._differs(slot, inputs[name]) for name, slot in self.inputs.items()]
        # One wait for all of them.
        changed = torch.stack(differs).tolist() if differs else []
        return [name for name, one in zip(self.inputs, changed, strict=True) if one]

    def output(self, name: str) -> torch.Tensor:
        """Return the guard's view of an output."""
        return self._views[name]

    def lines(self, name: str, size: int, count: int) -> list[tuple[int, int]]:
        """Return addresses and sizes of random pieces of an output, for the seal."""
        slot = self.outputs[name]
        size = min(size, slot.nbytes)
        if not size:
            return []
        begin = self._memory[name].address + slot.offset
        many = range(min(count, -(-slot.nbytes // size)))
        return [(begin + secrets.randbelow(slot.nbytes - size + 1), size) for _ in many]

    @property
    def size(self) -> int:
        """Return the bytes of all allocations."""
        return sum(one.size for one in self._memory.values())

    def close(self) -> None:
        """Give the memory back; nothing on the device may use it any more."""
        self._views.clear()
        self._canaries.clear()
        self._raw.clear()
        self._holds.clear()
        self._next.clear()
        for one in self._memory.values():
            one.close()

    def _slots(self) -> list[Slot]:
        return [*self.inputs.values(), *self.outputs.values()]

    def _data(self, name: str) -> torch.Tensor:
        slot = self.inputs.get(name) or self.outputs[name]
        return self._raw[name][slot.offset : slot.offset + slot.nbytes]

    def _around(self, slot: Slot) -> tuple[torch.Tensor, torch.Tensor]:
        raw, end = self._raw[slot.name], slot.offset + slot.nbytes
        return raw[slot.offset - CANARY : slot.offset], raw[end : end + CANARY]

    def _differs(self, slot: Slot, tensor: torch.Tensor) -> torch.Tensor:
        """Return, on the device, whether any byte of an input differs."""
        if tuple(tensor.stride()) != slot.strides:
            laid = torch.empty_strided(
                slot.shape, slot.strides, dtype=tensor.dtype, device=tensor.device
            )
            tensor = laid.copy_(tensor)
        flat = torch.as_strided(tensor, (tensor.numel(),), (1,)).view(torch.uint8)
        held = self._data(slot.name)
        if slot.nbytes % 8 == 0 and flat.data_ptr() % 8 == 0:
            held, flat = held.view(torch.int64), flat.view(torch.int64)
        return (held != flat).any()


def _slot(name: str, sample: torch.Tensor) -> Slot:
    return Slot(
        name=name,
        dtype=str(sample.dtype).removeprefix("torch."),
        shape=tuple(sample.shape),
        strides=tuple(sample.stride()),
        offset=CANARY,
        nbytes=sample.numel() * sample.element_size(),
    )


def _view(raw: torch.Tensor, slot: Slot) -> torch.Tensor:
    flat = raw[slot.offset : slot.offset + slot.nbytes].view(torch_dtype(slot.dtype))
    return flat.as_strided(slot.shape, slot.strides)
