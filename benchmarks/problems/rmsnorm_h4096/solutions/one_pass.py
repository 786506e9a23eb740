"""RMSNorm of bfloat16 rows of 4096: one program per row, the row kept in registers."""

import triton
import triton.language as tl


@triton.jit
def _kernel(x, weight, y, BLOCK: tl.constexpr):
    columns = tl.arange(0, BLOCK)
    row = tl.program_id(0).to(tl.int64) * BLOCK
    values = tl.load(x + row + columns).to(tl.float32)
    scale = tl.rsqrt(tl.sum(values * values) / BLOCK + 1e-5)
    weights = tl.load(weight + columns).to(tl.float32)
    tl.store(y + row + columns, (values * scale * weights).to(tl.bfloat16))


def run(hidden_states, weight, output):
    rows, hidden = hidden_states.shape
    _kernel[(rows,)](hidden_states, weight, output, BLOCK=hidden, num_warps=8)
