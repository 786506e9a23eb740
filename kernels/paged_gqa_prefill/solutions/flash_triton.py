"""One program per request, run of queries and key head; its rows are all heads of the group side by side."""

import triton
import triton.language as tl


@triton.jit
def _attend(
    q,
    k_cache,
    v_cache,
    qo_indptr,
    kv_indptr,
    kv_indices,
    output,
    lse,
    scale,
    requests,
    QUERIES: tl.constexpr,
    GROUP: tl.constexpr,
    BLOCK: tl.constexpr,
    KV_HEADS: tl.constexpr,
    DIM: tl.constexpr,
):
    kv_head = tl.program_id(1)
    # Runs are numbered over all requests: walk to the request that holds this one.
    left = tl.program_id(0)
    request = 0
    begin = tl.load(qo_indptr)
    end = tl.load(qo_indptr + 1)
    runs = (end - begin + QUERIES - 1) // QUERIES
    while (left >= runs) & (request < requests - 1):
        left -= runs
        request += 1
        begin = end
        end = tl.load(qo_indptr + request + 1)
        runs = (end - begin + QUERIES - 1) // QUERIES
    if left < runs:
        page = tl.load(kv_indptr + request)
        tokens = tl.load(kv_indptr + request + 1) - page
        lane = tl.arange(0, QUERIES * GROUP)
        query = left * QUERIES + lane // GROUP
        head = kv_head * GROUP + lane % GROUP
        real = query < end - begin
        dim = tl.arange(0, DIM)
        row = (begin + query).to(tl.int64) * KV_HEADS * GROUP + head
        at = row[:, None] * DIM + dim[None, :]
        queries = tl.load(q + at, mask=real[:, None], other=0.0)
        seen = query + 1 + tokens - (end - begin)
        last = tl.minimum(left * QUERIES + QUERIES, end - begin) + tokens - (end - begin)
        top = tl.full((QUERIES * GROUP,), -3.0e38, tl.float32)
        total = tl.zeros((QUERIES * GROUP,), tl.float32)
        mixed = tl.zeros((QUERIES * GROUP, DIM), tl.float32)
        for start in range(0, last, BLOCK):
            token = start + tl.arange(0, BLOCK)
            there = token < tokens
            places = tl.load(kv_indices + page + token, mask=there, other=0).to(tl.int64)
            keys_at = (places * KV_HEADS + kv_head)[:, None] * DIM + dim[None, :]
            keys = tl.load(k_cache + keys_at, mask=there[:, None], other=0.0)
            values = tl.load(v_cache + keys_at, mask=there[:, None], other=0.0)
            logits = tl.dot(queries, tl.trans(keys)) * scale
            visible = (token[None, :] < seen[:, None]) & there[None, :]
            logits = tl.where(visible, logits, -float("inf"))
            higher = tl.maximum(top, tl.max(logits, 1))
            shares = tl.exp(logits - higher[:, None])
            older = tl.exp(top - higher)
            total = total * older + tl.sum(shares, 1)
            mixed = mixed * older[:, None] + tl.dot(shares.to(tl.bfloat16), values)
            top = higher
        some = total > 0.0
        safe = tl.where(some, total, 1.0)
        log = tl.where(some, (top + tl.log(safe)) * 1.4426950408889634, -float("inf"))
        tl.store(lse + row, log, mask=real)
        tl.store(output + at, (mixed / safe[:, None]).to(tl.bfloat16), mask=real[:, None])


def run(q, k_cache, v_cache, qo_indptr, kv_indptr, kv_indices, sm_scale, output, lse):
    total, heads, dim = q.shape
    kv_heads = k_cache.shape[2]
    requests = qo_indptr.numel() - 1
    queries = 8
    # Where requests begin is known to the device alone: every request may end with a part of a run.
    grid = (triton.cdiv(total, queries) + requests, kv_heads)
    _attend[grid](
        q,
        k_cache,
        v_cache,
        qo_indptr,
        kv_indptr,
        kv_indices,
        output,
        lse,
        sm_scale,
        requests,
        QUERIES=queries,
        GROUP=heads // kv_heads,
        BLOCK=64,
        KV_HEADS=kv_heads,
        DIM=dim,
        num_warps=4,
        num_stages=2,
    )
