"""Comparing outputs with what they should be in one pass over both (imports torch).

Operator by operator a comparison in float64 reads and writes ten times what it looks at. The kernel is
compiled when it is first needed, for each pair of types; where that cannot be, there is no answer and
the caller goes its own way, to the same result.
"""

import math
import struct
from functools import lru_cache
from typing import Any, Final

import torch

from kernelarc_guard.precision import row_length

_TYPES: Final = {
    torch.float64: "double",
    torch.float32: "float",
    torch.bfloat16: "Bf16",
    torch.float16: "Half",
}
_MOST: Final = 1 << 31
"""Elements that the kernel can count."""
_LONGEST: Final = 1 << 15
"""A row is the work of one warp."""
_LANES: Final = 32
_THREADS: Final = 256
_BLOCKS: Final = 1056
_SOURCE: Final = """
typedef unsigned long long u64;
struct Bf16 { unsigned short bits; };
struct Half { unsigned short bits; };
__device__ double wide(double x) { return x; }
__device__ double wide(float x) { return x; }
__device__ double wide(Bf16 x) { return __uint_as_float(static_cast<unsigned>(x.bits) << 16); }
__device__ double wide(Half x) {
  float y;
  asm("cvt.f32.f16 %0, %1;" : "=f"(y) : "h"(x.bits));
  return y;
}

extern "C" __global__ void compare(const GOT* got, const WANTED* wanted, const double* limit, int row,
                                   int count, int either, double rtol, double atol, u64* out) {
  double worst = 0, relative = 0;
  u64 matched = 0, odd = 0;
  for (long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x; i < count;
       i += (long long)gridDim.x * blockDim.x) {
    const double want = wide(wanted[i]), error = fabs(wide(got[i]) - want), size = fabs(want);
    if (!(error <= 1.7976931348623157e308)) { odd = 1; continue; }
    double bound = either ? fmax((size + 1e-8) * rtol, atol) : size * rtol + atol;
    if (row) bound = fmin(bound, limit[row > 0 ? i / row : 0]);
    matched += error <= bound;
    worst = fmax(worst, error);
    relative = fmax(relative, error / (size + 1e-8));
  }
  for (int step = 16; step; step >>= 1) {
    worst = fmax(worst, __shfl_xor_sync(~0u, worst, step));
    relative = fmax(relative, __shfl_xor_sync(~0u, relative, step));
    matched += __shfl_xor_sync(~0u, matched, step);
    odd |= __shfl_xor_sync(~0u, odd, step);
  }
  if (threadIdx.x % 32 == 0) {
    // Doubles that are not negative are ordered like their bits.
    atomicMax(out, (u64)__double_as_longlong(worst));
    atomicMax(out + 1, (u64)__double_as_longlong(relative));
    atomicAdd(out + 2, matched);
    if (odd) atomicAdd(out + 3, odd);
  }
}

extern "C" __global__ void rows(const GOT* got, const WANTED* wanted, int many, int length,
                                double* off, double* size, int* odd) {
  const int row = (blockIdx.x * blockDim.x + threadIdx.x) / 32, lane = threadIdx.x % 32;
  if (row >= many) return;
  const long long begin = (long long)row * length;
  double worst = 0, largest = 0;
  for (int i = lane; i < length; i += 32) {
    const double want = wide(wanted[begin + i]), error = fabs(wide(got[begin + i]) - want);
    if (!(error <= 1.7976931348623157e308)) *odd = 1;
    worst = fmax(worst, error);
    largest = fmax(largest, fabs(want));
  }
  for (int step = 16; step; step >>= 1) {
    worst = fmax(worst, __shfl_xor_sync(~0u, worst, step));
    largest = fmax(largest, __shfl_xor_sync(~0u, largest, step));
  }
  if (lane == 0) { off[row] = worst; size[row] = largest; }
}
"""


def seen(
    got: torch.Tensor,
    wanted: torch.Tensor,
    limit: torch.Tensor | None,
    rtol: float,
    atol: float,
    either: bool,
) -> tuple[float, float, int] | None:
    """Return the largest absolute and relative error and how many elements match.

    An element matches within `atol + rtol * |wanted|` (`either`: within one of the two) and within its row's
    `limit` ([rows, 1] or [1, 1] in float64). None where something is not finite, or this cannot tell.
    """
    count = got.numel()
    known = got.dtype in _TYPES and wanted.dtype in _TYPES
    if not known or not 0 < count < _MOST:
        return None
    kernel = _kernel("compare", _TYPES[got.dtype], _TYPES[wanted.dtype])
    if kernel is None:
        return None
    row = 0
    if limit is not None:
        row = -1 if limit.numel() == 1 else row_length(tuple(wanted.shape))
        limit = limit.contiguous()
    out = torch.zeros(4, dtype=torch.int64, device=got.device)
    sides = [got.contiguous(), wanted.contiguous(), out if limit is None else limit]
    blocks = min(_BLOCKS, math.ceil(count / _THREADS))
    kernel(
        grid=(blocks, 1, 1),
        block=(_THREADS, 1, 1),
        args=[*sides, row, count, int(either), float(rtol), float(atol), out],
    )
    worst, relative, matched, odd = out.tolist()
    return None if odd else (_double(worst), _double(relative), matched)


def row_sizes(
    got: torch.Tensor, wanted: torch.Tensor, length: int
) -> tuple[torch.Tensor, torch.Tensor] | None:
    """Return each row's largest error and largest |wanted|, both [rows, 1] in float64.

    Rows have `length` elements. None where something is not finite, or this cannot tell.
    """
    count = got.numel()
    known = got.dtype in _TYPES and wanted.dtype in _TYPES
    if not known or not 0 < count < _MOST or length > _LONGEST:
        return None
    kernel = _kernel("rows", _TYPES[got.dtype], _TYPES[wanted.dtype])
    if kernel is None:
        return None
    rows = count // length
    off = torch.empty((rows, 1), dtype=torch.float64, device=got.device)
    size = torch.empty_like(off)
    odd = torch.zeros(1, dtype=torch.int32, device=got.device)
    kernel(
        grid=(math.ceil(rows * _LANES / _THREADS), 1, 1),
        block=(_THREADS, 1, 1),
        args=[got.contiguous(), wanted.contiguous(), rows, length, off, size, odd],
    )
    return None if odd.item() else (off, size)


def _double(bits: int) -> float:
    value: float = struct.unpack("<d", struct.pack("<q", bits))[0]
    return value


@lru_cache
def _kernel(name: str, got: str, wanted: str) -> Any:
    """Return a kernel for two types, None where it cannot be compiled."""
    source = _SOURCE.replace("GOT", got).replace("WANTED", wanted)
    try:
        # No fused multiplication and addition: the bound is what the operators compute.
        return torch.cuda._compile_kernel(source, name, nvcc_options=["--fmad=false"])
    except (AttributeError, OSError, RuntimeError, TypeError):
        return None
