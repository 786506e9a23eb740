"""Honest: Triton chooses among configurations at the first call of each shape."""

import triton
import triton.language as tl


@triton.autotune(
    configs=[triton.Config({}, num_warps=warps) for warps in (4, 8, 16)], key=["hidden"]
)
@triton.jit
def _kernel(x, weight, y, hidden, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64) * hidden
    columns = tl.arange(0, BLOCK)
    inside = columns < hidden
    values = tl.load(x + row + columns, mask=inside, other=0.0)
    scale = tl.rsqrt(tl.sum(values * values) / hidden + 1e-6)
    weights = tl.load(weight + columns, mask=inside, other=0.0)
    tl.store(y + row + columns, values * scale * weights, mask=inside)


def run(x, weight, y):
    rows, hidden = x.shape
    _kernel[(rows,)](x, weight, y, hidden, BLOCK=triton.next_power_of_2(hidden))
