"""Honest: each row's sum split over programs that add to a workspace, zeroed in every call."""

import torch
import triton
import triton.language as tl

_sums = {}


@triton.jit
def _add(x, sums, hidden, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    columns = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    values = tl.load(x + row.to(tl.int64) * hidden + columns, mask=columns < hidden, other=0.0)
    tl.atomic_add(sums + row, tl.sum(values * values))


@triton.jit
def _scale(x, weight, sums, y, hidden, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    columns = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    at = row.to(tl.int64) * hidden + columns
    inside = columns < hidden
    scale = tl.rsqrt(tl.load(sums + row) / hidden + 1e-6)
    values = tl.load(x + at, mask=inside, other=0.0)
    weights = tl.load(weight + columns, mask=inside, other=0.0)
    tl.store(y + at, values * scale * weights, mask=inside)


def run(x, weight, y):
    rows, hidden = x.shape
    if rows not in _sums:
        _sums[rows] = torch.empty(rows, device=x.device)
    sums = _sums[rows].zero_()
    grid = (rows, triton.cdiv(hidden, 1024))
    _add[grid](x, sums, hidden, BLOCK=1024)
    _scale[grid](x, weight, sums, y, hidden, BLOCK=1024)
