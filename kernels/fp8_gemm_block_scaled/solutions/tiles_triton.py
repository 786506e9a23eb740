"""Tiles of the output: products of 128 inner elements, scaled as they join the sum.

The operands are widened to float16, which holds every e4m3 value. The matrix units of Hopper sum products of
float8 in about 14 bits, and where scales are large and an element of the result is small, that is too
few; products of float16 are summed in float32's.
"""

import triton
import triton.language as tl


@triton.jit
def _tile(a, a_scale, b, b_scale, y, m, n, k, BLOCK_M: tl.constexpr, BLOCK: tl.constexpr):
    row = tl.program_id(1) * BLOCK_M + tl.arange(0, BLOCK_M)
    column = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inner = tl.arange(0, BLOCK)
    blocks = k // BLOCK
    legal = (row % m).to(tl.int64)
    at_a = a + legal[:, None] * k + inner[None, :]
    at_b = b + column.to(tl.int64)[None, :] * k + inner[:, None]
    at_left = a_scale + legal * blocks
    at_right = b_scale + tl.program_id(0) * blocks
    total = tl.zeros((BLOCK_M, BLOCK), dtype=tl.float32)
    for block in range(0, blocks):
        left, right = tl.load(at_a).to(tl.float16), tl.load(at_b).to(tl.float16)
        product = tl.dot(left, right)
        scale = tl.load(at_left + block) * tl.load(at_right + block)
        total += product * scale[:, None]
        at_a += BLOCK
        at_b += BLOCK
    at = row.to(tl.int64)[:, None] * n + column[None, :]
    tl.store(y + at, total.to(tl.bfloat16), mask=row[:, None] < m)


def run(a, a_scale, b, b_scale, y):
    m, k = a.shape
    n = b.shape[0]
    block_m = 128 if m > 64 else 64
    grid = (n // 128, triton.cdiv(m, block_m))
    _tile[grid](
        a, a_scale, b, b_scale, y, m, n, k, BLOCK_M=block_m, BLOCK=128, num_warps=8, num_stages=3
    )
