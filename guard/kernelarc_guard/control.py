"""The control page between the guard and one runner: fixed offsets, no parsing, no torch.

The guard writes the order before it wakes the runner; the runner writes what it returned before it
stops itself. Everything the runner writes is untrusted: the guard reads it with bounds and checks
the tensors it points at.
"""

import mmap
import struct
from collections.abc import Collection
from dataclasses import dataclass
from typing import Final, Literal

SIZE: Final = 1 << 16
MAX_SCALARS: Final = 64
MAX_OUTPUTS: Final = 32
MAX_DIMS: Final = 8
MAX_ERROR: Final = 16_000

RUN: Final = 1
QUIT: Final = 2
IDLE: Final = 3
"""Stay awake for a moment without calling the solution, and say what it changed."""
EMPTY: Final = 4
"""Stop again at once, `workload` times: windows with nothing in them."""
SYNC: Final = 5
"""On a GPU: wait for the device and say what went wrong there."""

HOLD: Final = 1
"""Keep the results of earlier calls alive together with this one's."""
RENEW: Final = 2
"""Pass new tensor objects over the same memory."""
QUEUE: Final = 4
"""On a GPU: let the call's work wait there for the guard's go."""
WAIT: Final = 8
"""On a GPU: make the call longer by the delay that is planted in this runner."""

_ORDER: Final = struct.Struct("<QIIQI")
MAX_MARKED: Final = 64
SCALARS_AT: Final = 64
_SCALAR: Final = struct.Struct("<I4xq")
DONE_AT: Final = 4096
_DONE: Final = struct.Struct("<QII")
_OUTPUTS_AT: Final = DONE_AT + 64
_OUTPUT: Final = struct.Struct(f"<4I{MAX_DIMS}q{MAX_DIMS}qQq")
_ERROR_AT: Final = 32_768
_ERROR: Final = struct.Struct("<I")

NOTHING: Final = 0
DONE: Final = 1
RAISED: Final = 2

KIND_BUFFER: Final = 0
KIND_TENSOR: Final = 1
KIND_INT: Final = 2
KIND_FLOAT: Final = 3
KIND_OTHER: Final = 4

DTYPES: Final = [
    "float64",
    "float32",
    "float16",
    "bfloat16",
    "float8_e4m3fn",
    "float8_e5m2",
    "int64",
    "int32",
    "int16",
    "int8",
    "bool",
    "uint8",
    "float4_e2m1fn_x2",
    "complex64",
    "complex128",
]
"""Codes of dtypes on the page are indices into this list; anything else is `len(DTYPES)`."""


@dataclass(frozen=True)
class Order:
    """What a runner shall do when it wakes."""

    call: int
    command: int
    workload: int
    rewritten: int = 0
    """Bit i: the i-th tensor input has other contents than at the last call of this workload."""
    flags: int = 0


@dataclass(frozen=True)
class Returned:
    """What a runner says it returned for one output."""

    kind: int
    dtype: str
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    address: int
    bits: int
    """A returned Python scalar: the integer itself, or the bits of the double."""


class ControlPage:
    """Typed access to one mapped page."""

    def __init__(self, page: mmap.mmap) -> None:
        self.page = page

    def order(self, order: Order) -> None:
        """Write what the runner shall do when it wakes, and clear its last report."""
        _DONE.pack_into(self.page, DONE_AT, 0, NOTHING, 0)
        _ORDER.pack_into(
            self.page, 0, order.call, order.command, order.workload, order.rewritten, order.flags
        )

    def read_order(self) -> Order:
        """Runner: what to do now."""
        return Order(*_ORDER.unpack_from(self.page, 0))

    def set_scalars(self, values: list[bool | int | float]) -> None:
        """Write the call's Python scalars in the order of the definition."""
        if len(values) > MAX_SCALARS:
            raise ValueError(f"{len(values)} scalar inputs; at most {MAX_SCALARS}")
        for index, value in enumerate(values):
            kind = KIND_FLOAT if isinstance(value, float) else KIND_INT
            bits = scalar_bits(value) if isinstance(value, float) else int(value)
            _SCALAR.pack_into(self.page, SCALARS_AT + index * _SCALAR.size, kind, bits)

    def scalar(self, index: int) -> int | float:
        """Read one scalar back."""
        kind, bits = _SCALAR.unpack_from(self.page, SCALARS_AT + index * _SCALAR.size)
        return scalar_double(bits) if kind == KIND_FLOAT else int(bits)

    def report(self, call: int, status: Literal[1, 2], outputs: int) -> None:
        """Runner: say that the call ended."""
        _DONE.pack_into(self.page, DONE_AT, call, status, outputs)

    def write_tensor(
        self, index: int, dtype: int, shape: tuple[int, ...], strides: tuple[int, ...], address: int
    ) -> None:
        """Runner: describe one returned tensor."""
        dims = len(shape)
        pad = (0,) * (MAX_DIMS - dims)
        _OUTPUT.pack_into(
            self.page,
            _OUTPUTS_AT + index * _OUTPUT.size,
            KIND_TENSOR,
            dtype,
            dims,
            0,
            *shape,
            *pad,
            *strides,
            *pad,
            address,
            0,
        )

    def write_other(self, index: int, kind: int, bits: int = 0) -> None:
        """Runner: describe an output that is not a plain tensor."""
        zeros = (0,) * (2 * MAX_DIMS)
        _OUTPUT.pack_into(
            self.page, _OUTPUTS_AT + index * _OUTPUT.size, kind, 0, 0, 0, *zeros, 0, bits
        )

    def write_error(self, text: str) -> None:
        """Runner: the exception's text, cut to `MAX_ERROR` bytes and saying so."""
        data = text.encode("utf-8", "replace")
        if len(data) > MAX_ERROR:
            data = data[: MAX_ERROR - 16] + b" ... [cut]"
        _ERROR.pack_into(self.page, _ERROR_AT, len(data))
        self.page[_ERROR_AT + 4 : _ERROR_AT + 4 + len(data)] = data

    def read_report(self) -> tuple[int, int, int]:
        """Guard: (call, status, outputs), as the runner claims."""
        call, status, outputs = _DONE.unpack_from(self.page, DONE_AT)
        return call, status, outputs

    def read_output(self, index: int) -> Returned:
        """Guard: the runner's claim about one output, with its dimensions bounded."""
        fields = _OUTPUT.unpack_from(self.page, _OUTPUTS_AT + index * _OUTPUT.size)
        kind, code, dims = fields[0], fields[1], min(fields[2], MAX_DIMS)
        shape, strides = fields[4 : 4 + MAX_DIMS], fields[4 + MAX_DIMS : 4 + 2 * MAX_DIMS]
        return Returned(
            kind=kind,
            dtype=DTYPES[code] if code < len(DTYPES) else "unknown",
            shape=tuple(shape[:dims]),
            strides=tuple(strides[:dims]),
            address=fields[-2],
            bits=fields[-1],
        )

    def read_error(self) -> str:
        """Guard: the runner's error text."""
        (size,) = _ERROR.unpack_from(self.page, _ERROR_AT)
        data = self.page[_ERROR_AT + 4 : _ERROR_AT + 4 + min(size, MAX_ERROR)]
        return data.decode("utf-8", "replace")


def marks(inputs: list[str], rewritten: Collection[str]) -> int:
    """Return an order's `rewritten` for the names of all tensor inputs and of those rewritten."""
    return sum(1 << i for i, name in enumerate(inputs[:MAX_MARKED]) if name in rewritten)


def scalar_bits(value: float) -> int:
    (bits,) = struct.unpack("<q", struct.pack("<d", value))
    return int(bits)


def scalar_double(bits: int) -> float:
    (value,) = struct.unpack("<d", struct.pack("<q", bits))
    return float(value)
