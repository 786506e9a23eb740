"""One program per token: its row of the table is read once and turns all heads of q and k."""

import triton
import triton.language as tl


@triton.jit
def _turn(source, target, first_row, heads, cosine, sine, HALF: tl.constexpr, HEADS: tl.constexpr):
    head = tl.arange(0, HEADS)[:, None]
    pair = tl.arange(0, HALF)[None, :]
    at = first_row * 2 * HALF + head * 2 * HALF + pair
    inside = head < heads
    first = tl.load(source + at, mask=inside, other=0.0).to(tl.float32)
    second = tl.load(source + at + HALF, mask=inside, other=0.0).to(tl.float32)
    tl.store(target + at, (first * cosine - second * sine).to(tl.bfloat16), mask=inside)
    tl.store(target + at + HALF, (second * cosine + first * sine).to(tl.bfloat16), mask=inside)


@triton.jit
def _token(
    q,
    k,
    positions,
    cos_sin,
    q_turned,
    k_turned,
    q_heads,
    kv_heads,
    HALF: tl.constexpr,
    Q_HEADS: tl.constexpr,
    KV_HEADS: tl.constexpr,
):
    token = tl.program_id(0).to(tl.int64)
    row = cos_sin + tl.load(positions + token) * 2 * HALF + tl.arange(0, HALF)[None, :]
    cosine, sine = tl.load(row), tl.load(row + HALF)
    _turn(q, q_turned, token * q_heads, q_heads, cosine, sine, HALF, Q_HEADS)
    _turn(k, k_turned, token * kv_heads, kv_heads, cosine, sine, HALF, KV_HEADS)


def run(q, k, positions, cos_sin, q_turned, k_turned):
    q_heads, dim = q.shape[2:]
    kv_heads = k.shape[2]
    _token[(positions.numel(),)](
        q,
        k,
        positions,
        cos_sin,
        q_turned,
        k_turned,
        q_heads,
        kv_heads,
        HALF=dim // 2,
        Q_HEADS=triton.next_power_of_2(q_heads),
        KV_HEADS=triton.next_power_of_2(kv_heads),
        num_warps=4,
    )
