"""Tiles of the output, each one program, which adds the residual to its sums before they are stored."""

import triton
import triton.language as tl


@triton.jit
def _tile(
    x,
    weight,
    residual,
    output,
    rows,
    WIDTH: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
):
    # Programs that run at the same time share rows of x and walk the columns of the weight.
    across = WIDTH // BLOCK_N
    row = tl.program_id(0) // across * BLOCK_M + tl.arange(0, BLOCK_M)
    column = tl.program_id(0) % across * BLOCK_N + tl.arange(0, BLOCK_N)
    inner = tl.arange(0, BLOCK_K)
    inside = row[:, None] < rows
    at_x = x + (row % rows).to(tl.int64)[:, None] * WIDTH + inner[None, :]
    at_weight = weight + column[None, :] * WIDTH + inner[:, None]
    total = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for _ in range(0, WIDTH, BLOCK_K):
        total = tl.dot(tl.load(at_x), tl.load(at_weight), total)
        at_x += BLOCK_K
        at_weight += BLOCK_K
    at = row.to(tl.int64)[:, None] * WIDTH + column[None, :]
    total += tl.load(residual + at, mask=inside, other=0.0).to(tl.float32)
    tl.store(output + at, total.to(tl.bfloat16), mask=inside)


def run(attn_output, residual, o_proj_weight, output):
    width = output.shape[-1]
    rows = output.numel() // width
    block_m = 128 if rows > 1024 else 64
    grid = (triton.cdiv(rows, block_m) * (width // 128),)
    _tile[grid](
        attn_output,
        o_proj_weight,
        residual,
        output,
        rows,
        WIDTH=width,
        BLOCK_M=block_m,
        BLOCK_N=128,
        BLOCK_K=64,
        num_warps=8 if block_m == 128 else 4,
        num_stages=3,
    )
