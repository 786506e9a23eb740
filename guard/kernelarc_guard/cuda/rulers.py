"""What a GPU does at best: writing, copying and matrix products, in the guard's own context.

Imports torch.
"""

import time
from collections.abc import Callable
from typing import Final

import torch

from kernelarc_guard.rule import Rulers

_WRITTEN: Final = (8 << 20, 32 << 20)
"""Bytes that lie in the cache; one of them suits it best."""
_TOGETHER: Final = 32
"""Writes that are launched at once: launching one takes longer than the write."""
_COPIED: Final = 1 << 30
_TRIES: Final = 20
_PRODUCTS: Final = 6
_SIZE: Final = 8192
_SIZE_FP32: Final = 4096
"""On no matrix units: the larger product would take a tenth of a second."""


def measure(place: str, empty_kernel_ns: int | None, before: Rulers | None) -> Rulers:
    """Return the best of some tries on the torch device `place`, and of what was seen `before`.

    Empty windows are taken off all times already, so their own ruler is the least there is;
    `empty_kernel_ns` is what they took.
    """
    written = max(_writing(place, size) for size in _WRITTEN)
    copied = 2 * _COPIED / _copying(place)
    rates = matrix_rates(place)
    if before is not None:
        written = max(written, before.write_bytes_per_second)
        copied = max(copied, before.copy_bytes_per_second)
        seen = before.matrix_flops_per_second
        rates = {name: max(rate, seen.get(name, 0.0)) for name, rate in rates.items()}
        known = [n for n in (empty_kernel_ns, before.empty_kernel_ns) if n is not None]
        empty_kernel_ns = min(known, default=None)
    return Rulers(
        empty_window_ns=1,
        write_bytes_per_second=written,
        copy_bytes_per_second=copied,
        empty_kernel_ns=empty_kernel_ns,
        matrix_flops_per_second=rates,
    )


def matrix_rates(place: str) -> dict[str, float]:
    """Return operations a second of a large product of random values, by dtype.

    float32 without TF32; FP8 only where the device and this torch have it.
    """
    kept, torch.backends.cuda.matmul.allow_tf32 = torch.backends.cuda.matmul.allow_tf32, False
    try:
        rates = {
            name: _rate(_product(place, dtype, size), size)
            for name, dtype, size in (
                ("bfloat16", torch.bfloat16, _SIZE),
                ("float16", torch.float16, _SIZE),
                ("float32", torch.float32, _SIZE_FP32),
            )
        }
    finally:
        torch.backends.cuda.matmul.allow_tf32 = kept
    if torch.cuda.get_device_capability(place) >= (8, 9):
        rates["float8_e4m3fn"] = _rate(_product_fp8(place), _SIZE)
    return rates


def _product(place: str, dtype: torch.dtype, size: int) -> Callable[[], object]:
    one, other = (torch.randn(size, size, device=place).to(dtype) for _ in range(2))
    out = torch.empty(size, size, device=place, dtype=dtype)
    return lambda: torch.mm(one, other, out=out)


def _product_fp8(place: str) -> Callable[[], object]:
    one, other = (torch.randn(_SIZE, _SIZE, device=place).to(torch.float8_e4m3fn) for _ in range(2))
    unit = torch.ones((), device=place)
    # The second operand has to lie column by column.
    return lambda: torch._scaled_mm(
        one, other.t(), scale_a=unit, scale_b=unit, out_dtype=torch.bfloat16
    )


def _rate(step: Callable[[], object], size: int) -> float:
    return 2 * size**3 / _shortest(step, _PRODUCTS)


def _writing(place: str, size: int) -> float:
    target = torch.empty(size // 4, dtype=torch.int32, device=place)

    def write() -> None:
        for _ in range(_TOGETHER):
            target.fill_(1)

    return _TOGETHER * size / _shortest(write, _TRIES)


def _copying(place: str) -> float:
    source, target = (torch.empty(_COPIED, dtype=torch.uint8, device=place) for _ in range(2))
    return _shortest(lambda: target.copy_(source), _TRIES)


def _shortest(step: Callable[[], object], tries: int) -> float:
    """Return the seconds of the shortest of so many runs after a first one."""
    best = float("inf")
    for turn in range(tries + 1):
        torch.cuda.synchronize()
        begin = time.perf_counter_ns()
        step()
        torch.cuda.synchronize()
        if turn:
            best = min(best, (time.perf_counter_ns() - begin) / 1e9)
    return best
