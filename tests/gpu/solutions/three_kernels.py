"""RMSNorm of float32 rows in three kernels, with a pause of the host before the last one."""

import time

import torch
import triton
import triton.language as tl


@triton.jit
def first_of_three(x, squares, hidden, BLOCK: tl.constexpr):
    columns = tl.program_id(0).to(tl.int64) * hidden + tl.arange(0, BLOCK)
    inside = tl.arange(0, BLOCK) < hidden
    values = tl.load(x + columns, mask=inside, other=0.0)
    tl.store(squares + columns, values * values, mask=inside)


@triton.jit
def second_of_three(squares, scales, hidden, BLOCK: tl.constexpr):
    columns = tl.program_id(0).to(tl.int64) * hidden + tl.arange(0, BLOCK)
    values = tl.load(squares + columns, mask=tl.arange(0, BLOCK) < hidden, other=0.0)
    tl.store(scales + tl.program_id(0), tl.rsqrt(tl.sum(values) / hidden + 1e-6))


@triton.jit
def third_of_three(x, weight, scales, y, hidden, BLOCK: tl.constexpr):
    columns = tl.program_id(0).to(tl.int64) * hidden + tl.arange(0, BLOCK)
    inside = tl.arange(0, BLOCK) < hidden
    values = tl.load(x + columns, mask=inside, other=0.0) * tl.load(scales + tl.program_id(0))
    weights = tl.load(weight + tl.arange(0, BLOCK), mask=inside, other=0.0)
    tl.store(y + columns, values * weights, mask=inside)


def run(x, weight, y):
    rows, hidden = x.shape
    block = triton.next_power_of_2(hidden)
    squares, scales = torch.empty_like(x), torch.empty(rows, device=x.device)
    first_of_three[(rows,)](x, squares, hidden, BLOCK=block, num_warps=4)
    second_of_three[(rows,)](squares, scales, hidden, BLOCK=block, num_warps=4)
    torch.cuda.synchronize()
    time.sleep(0.01)
    third_of_three[(rows,)](x, weight, scales, y, hidden, BLOCK=block, num_warps=4)
