"""Honest: a float32 product whose inner dimension is split over programs that add up atomically."""

import triton
import triton.language as tl


@triton.jit
def _kernel(
    x, weight, y, m, n, k, SPLIT: tl.constexpr, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr
):
    rows = tl.program_id(0) * M + tl.arange(0, M)
    columns = tl.program_id(1) * N + tl.arange(0, N)
    total = tl.zeros((M, N), tl.float32)
    for start in range(tl.program_id(2) * K, k, SPLIT * K):
        inner = start + tl.arange(0, K)
        left = tl.load(
            x + rows[:, None] * k + inner[None, :],
            mask=(rows[:, None] < m) & (inner[None, :] < k),
            other=0.0,
        )
        right = tl.load(
            weight + inner[:, None] * n + columns[None, :],
            mask=(inner[:, None] < k) & (columns[None, :] < n),
            other=0.0,
        )
        total = tl.dot(left, right, total, input_precision="ieee")
    inside = (rows[:, None] < m) & (columns[None, :] < n)
    tl.atomic_add(y + rows[:, None] * n + columns[None, :], total, mask=inside)


def run(x, weight, residual, y):
    (m, k), n = x.shape, weight.shape[1]
    y.copy_(residual)
    grid = (triton.cdiv(m, 64), triton.cdiv(n, 64), 4)
    _kernel[grid](x, weight, y, m, n, k, SPLIT=4, M=64, N=64, K=32)
