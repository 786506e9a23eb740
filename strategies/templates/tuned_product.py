"""A Triton product whose sizes are a table by shape, searched offline and written down."""

import triton
import triton.language as tl


@triton.jit
def _product(a, b, c, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr,
             GROUP: tl.constexpr):  # fmt: skip
    # Blocks walk in groups of GROUP rows of tiles, so that neighbours share operands in L2.
    tiles_n = tl.cdiv(N, BN)
    group = tl.program_id(0) // (GROUP * tiles_n)
    height = min(tl.cdiv(M, BM) - group * GROUP, GROUP)
    inside = tl.program_id(0) % (GROUP * tiles_n)
    rows = (group * GROUP + inside % height) * BM + tl.arange(0, BM)
    columns = inside // height * BN + tl.arange(0, BN)
    total = tl.zeros((BM, BN), tl.float32)
    for first in range(0, K, BK):  # num_stages of these loads are in flight
        k = first + tl.arange(0, BK)
        left = tl.load(a + rows[:, None] * K + k[None, :],
                       mask=(rows[:, None] < M) & (k[None, :] < K), other=0.0)  # fmt: skip
        right = tl.load(b + k[:, None] * N + columns[None, :],
                        mask=(k[:, None] < K) & (columns[None, :] < N), other=0.0)  # fmt: skip
        total = tl.dot(left, right, total)
    tl.store(c + rows[:, None] * N + columns[None, :], total.to(c.dtype.element_ty),
             mask=(rows[:, None] < M) & (columns[None, :] < N))  # fmt: skip


# A starting point, not a result: vary one number at a time, then pairs (num_warps, num_stages).
START = {"BM": 64, "BN": 64, "BK": 32, "GROUP": 4, "num_warps": 4, "num_stages": 3}
TABLE = {}  # (M, N, K) -> what won offline for that shape


def run(a, b, c):
    """Fill c with a @ b (16-bit, contiguous); language triton, destination_passing=true."""
    (m, k), n = a.shape, b.shape[1]
    sizes = TABLE.get((m, n, k), START)
    grid = (triton.cdiv(m, sizes["BM"]) * triton.cdiv(n, sizes["BN"]),)
    _product[grid](a, b, c, m, n, k, **sizes)
