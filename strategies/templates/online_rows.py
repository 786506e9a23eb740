"""Softmax of rows longer than a block: one sweep keeps (maximum, sum), a second one writes."""

import triton
import triton.language as tl


@triton.jit
def _rows(x, y, columns, BLOCK: tl.constexpr):
    start = tl.program_id(0).to(tl.int64) * columns
    most = tl.full((BLOCK,), float("-inf"), tl.float32)  # a pair per lane: merged once, at the end
    total = tl.zeros((BLOCK,), tl.float32)
    for first in range(0, columns, BLOCK):
        at = first + tl.arange(0, BLOCK)
        value = tl.load(x + start + at, mask=at < columns, other=float("-inf")).to(tl.float32)
        higher = tl.maximum(most, value)
        safe = tl.where(higher == float("-inf"), 0.0, higher)  # -inf - -inf would be NaN
        total = total * tl.exp(most - safe) + tl.exp(value - safe)
        most = higher
    top = tl.max(most, 0)
    shift = tl.where(top == float("-inf"), 0.0, top)
    inverse = 1.0 / tl.sum(total * tl.exp(most - shift), 0)
    for first in range(0, columns, BLOCK):
        at = first + tl.arange(0, BLOCK)
        value = tl.load(x + start + at, mask=at < columns, other=float("-inf")).to(tl.float32)
        tl.store(y + start + at, tl.exp(value - shift) * inverse, mask=at < columns)


def run(x, y):
    """Fill y with the softmax of each row of x; language triton, destination_passing=true."""
    rows, columns = x.shape
    block = min(4096, triton.next_power_of_2(columns))
    _rows[(rows,)](x, y, columns, BLOCK=block, num_warps=8)
