"""Every sequence cut into runs of its cache, one program per run and key head; a second kernel joins them."""

import torch
import triton
import triton.language as tl


@triton.jit
def _run(
    q,
    k_cache,
    v_cache,
    lengths,
    partial,
    logs,
    longest,
    scale,
    RUN: tl.constexpr,
    BLOCK: tl.constexpr,
    GROUP: tl.constexpr,
    ROWS: tl.constexpr,
    KV_HEADS: tl.constexpr,
    DIM: tl.constexpr,
):
    sequence, kv_head, part = tl.program_id(0), tl.program_id(1), tl.program_id(2)
    length = tl.load(lengths + sequence)
    head = tl.arange(0, ROWS)
    dim = tl.arange(0, DIM)
    query = (sequence * KV_HEADS + kv_head) * GROUP + head
    real = head < GROUP
    queries = tl.load(q + query[:, None] * DIM + dim[None, :], mask=real[:, None], other=0.0)
    top = tl.full((ROWS,), -3.0e38, tl.float32)
    total = tl.zeros((ROWS,), tl.float32)
    mixed = tl.zeros((ROWS, DIM), tl.float32)
    for start in range(part * RUN, min(part * RUN + RUN, length), BLOCK):
        token = start + tl.arange(0, BLOCK)
        there = token < length
        row = (sequence.to(tl.int64) * longest + token) * KV_HEADS + kv_head
        at = row[:, None] * DIM + dim[None, :]
        keys = tl.load(k_cache + at, mask=there[:, None], other=0.0)
        values = tl.load(v_cache + at, mask=there[:, None], other=0.0)
        logits = tl.dot(queries, tl.trans(keys)) * scale
        logits = tl.where(there[None, :], logits, -float("inf"))
        higher = tl.maximum(top, tl.max(logits, 1))
        shares = tl.exp(logits - higher[:, None])
        older = tl.exp(top - higher)
        total = total * older + tl.sum(shares, 1)
        mixed = mixed * older[:, None] + tl.dot(shares.to(tl.bfloat16), values)
        top = higher
    parts = tl.num_programs(2)
    slot = query * parts + part
    some = total > 0.0
    safe = tl.where(some, total, 1.0)
    log = tl.where(some, top + tl.log(safe), -float("inf"))
    tl.store(logs + slot, log, mask=real)
    at = slot.to(tl.int64)[:, None] * DIM + dim[None, :]
    tl.store(partial + at, mixed / safe[:, None], mask=real[:, None])


@triton.jit
def _join(partial, logs, output, lse, parts, PARTS: tl.constexpr, DIM: tl.constexpr):
    query = tl.program_id(0)
    part = tl.arange(0, PARTS)
    dim = tl.arange(0, DIM)
    real = part < parts
    log = tl.load(logs + query * parts + part, mask=real, other=-float("inf"))
    top = tl.max(log, 0)
    whole = top + tl.log(tl.sum(tl.exp(log - top), 0))
    at = (query * parts + part).to(tl.int64)[:, None] * DIM + dim[None, :]
    mixed = tl.load(partial + at, mask=real[:, None], other=0.0)
    value = tl.sum(mixed * tl.exp(log - whole)[:, None], 0)
    tl.store(output + query * DIM + dim, value.to(tl.bfloat16))
    tl.store(lse + query, whole)


def run(q, k_cache, v_cache, lengths, output, lse):
    batch, heads, dim = q.shape
    longest, kv_heads = k_cache.shape[1:3]
    # Enough programs for every multiprocessor, and runs of at least 256 tokens.
    length = max(256, triton.next_power_of_2(longest * batch * kv_heads // 512))
    parts = triton.cdiv(longest, length)
    partial = torch.empty(batch, heads, parts, dim, dtype=torch.float32, device=q.device)
    logs = torch.empty(batch, heads, parts, dtype=torch.float32, device=q.device)
    _run[(batch, kv_heads, parts)](
        q,
        k_cache,
        v_cache,
        lengths,
        partial,
        logs,
        longest,
        dim**-0.5,
        RUN=length,
        BLOCK=64,
        GROUP=heads // kv_heads,
        ROWS=16,
        KV_HEADS=kv_heads,
        DIM=dim,
        num_warps=4,
        num_stages=2,
    )
    _join[(batch * heads,)](
        partial, logs, output, lse, parts, PARTS=triton.next_power_of_2(parts), DIM=dim, num_warps=2
    )
