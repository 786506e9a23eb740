"""RMSNorm of bfloat16 rows of 4096: one warp per row, which reads it twice, very little at a time."""

import triton
import triton.language as tl


@triton.jit
def _kernel(x, weight, y, HIDDEN: tl.constexpr, BLOCK: tl.constexpr):
    columns = tl.arange(0, BLOCK)
    row = tl.program_id(0).to(tl.int64) * HIDDEN
    squares = tl.zeros((BLOCK,), dtype=tl.float32)
    for start in range(0, HIDDEN, BLOCK):
        values = tl.load(x + row + start + columns).to(tl.float32)
        squares += values * values
    scale = tl.rsqrt(tl.sum(squares) / HIDDEN + 1e-5)
    for start in range(0, HIDDEN, BLOCK):
        values = tl.load(x + row + start + columns).to(tl.float32)
        weights = tl.load(weight + start + columns).to(tl.float32)
        tl.store(y + row + start + columns, (values * scale * weights).to(tl.bfloat16))


def run(hidden_states, weight, output):
    rows, hidden = hidden_states.shape
    _kernel[(rows,)](hidden_states, weight, output, HIDDEN=hidden, BLOCK=64, num_warps=1)
