"""The seal of a call on a GPU: random pieces of its outputs, copied the moment it says it is done."""

import ctypes
import secrets
from functools import lru_cache
from typing import Final

import torch

from kernelarc_guard.cuda import driver
from kernelarc_guard.cuda.buffers import CudaBuffers

_PIECE: Final = 4096
_PIECES: Final = 8


@lru_cache
def _stream(device: int) -> int:
    """Return the stream of all seals on a device."""
    return driver.new_stream()


class Seal:
    """Copies by the copy engine, which needs no turn on the multiprocessors."""

    def __init__(self, device: int) -> None:
        """Take pinned memory for the pieces of one call."""
        self._device = device
        self._stream = _stream(device)
        self._first = torch.empty(_PIECES * _PIECE, dtype=torch.uint8, pin_memory=True)
        self._later = torch.empty(_PIECES * _PIECE, dtype=torch.uint8, pin_memory=True)
        self._taken: list[tuple[str, int, int]] = []

    def take(self, buffers: CudaBuffers) -> None:
        """Copy pieces now: what is read later must agree with them."""
        names = [name for name, slot in buffers.outputs.items() if slot.nbytes]
        chosen = [(n, at, size) for n in names for at, size in buffers.lines(n, _PIECE, _PIECES)]
        secrets.SystemRandom().shuffle(chosen)
        self._taken = chosen[:_PIECES]
        self._copy(self._first)

    def changed(self) -> str | None:
        """Return an output of which a piece is not what it was, None where all are."""
        self._copy(self._later)
        if torch.equal(self._first, self._later):
            return None
        for index, (name, _, size) in enumerate(self._taken):
            part = slice(index * _PIECE, index * _PIECE + size)
            if not torch.equal(self._first[part], self._later[part]):
                return name
        return None

    def _copy(self, target: torch.Tensor) -> None:
        for index, (_, at, size) in enumerate(self._taken):
            place = ctypes.c_void_p(target.data_ptr() + index * _PIECE)
            driver.call("cuMemcpyDtoHAsync_v2", place, at, size, self._stream)
        driver.call("cuStreamSynchronize", self._stream)
