"""RMSNorm of bfloat16 rows of 4096 as in one_pass.py, with a rest of some microseconds in every program."""

import triton
import triton.language as tl


@triton.jit
def _kernel(x, weight, y, BLOCK: tl.constexpr, THREADS: tl.constexpr):
    tl.inline_asm_elementwise(
        "nanosleep.u32 2500; mov.u32 $0, $1;",
        "=r,r",
        [tl.zeros((THREADS,), tl.int32)],
        dtype=tl.int32,
        is_pure=False,
        pack=1,
    )
    columns = tl.arange(0, BLOCK)
    row = tl.program_id(0).to(tl.int64) * BLOCK
    values = tl.load(x + row + columns).to(tl.float32)
    scale = tl.rsqrt(tl.sum(values * values) / BLOCK + 1e-5)
    weights = tl.load(weight + columns).to(tl.float32)
    tl.store(y + row + columns, (values * scale * weights).to(tl.bfloat16))


def run(hidden_states, weight, output):
    rows, hidden = hidden_states.shape
    _kernel[(rows,)](hidden_states, weight, output, BLOCK=hidden, THREADS=256, num_warps=8)
