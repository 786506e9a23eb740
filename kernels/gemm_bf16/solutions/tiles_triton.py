"""Tiles of the result, each one program; tiles are numbered in groups of rows that share b in the cache."""

import triton
import triton.language as tl


@triton.jit
def _tile(
    a,
    b,
    c,
    m,
    n,
    k,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
    GROUP: tl.constexpr,
    WHOLE: tl.constexpr,
):
    index = tl.program_id(0)
    tiles_m, tiles_n = tl.cdiv(m, BLOCK_M), tl.cdiv(n, BLOCK_N)
    in_group = GROUP * tiles_n
    first = index // in_group * GROUP
    height = min(tiles_m - first, GROUP)
    row = first + index % in_group % height
    column = index % in_group // height
    rows = row * BLOCK_M + tl.arange(0, BLOCK_M)
    columns = column * BLOCK_N + tl.arange(0, BLOCK_N)
    inner = tl.arange(0, BLOCK_K)
    # Rows and columns beyond the edge read the first ones; they are never stored.
    at_a = a + (rows % m)[:, None] * k + inner[None, :]
    at_b = b + inner[:, None] * n + (columns % n)[None, :]
    total = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for start in range(0, k, BLOCK_K):
        if WHOLE:
            left = tl.load(at_a)
            right = tl.load(at_b)
        else:
            left = tl.load(at_a, mask=inner[None, :] < k - start, other=0.0)
            right = tl.load(at_b, mask=inner[:, None] < k - start, other=0.0)
        total = tl.dot(left, right, total)
        at_a += BLOCK_K
        at_b += BLOCK_K * n
    inside = (rows[:, None] < m) & (columns[None, :] < n)
    tl.store(c + rows[:, None] * n + columns[None, :], total.to(tl.bfloat16), mask=inside)


def run(a, b, c):
    m, k = a.shape
    n = b.shape[1]
    block_m, block_n, block_k = (128, 256, 64) if m > 128 else (64, 64, 64)
    grid = (triton.cdiv(m, block_m) * triton.cdiv(n, block_n),)
    _tile[grid](
        a,
        b,
        c,
        m,
        n,
        k,
        BLOCK_M=block_m,
        BLOCK_N=block_n,
        BLOCK_K=block_k,
        GROUP=8,
        WHOLE=k % block_k == 0,
        num_warps=8 if m > 128 else 4,
        num_stages=3,
    )
