"""Query by query and head by head, keys and values gathered for every request."""

import math

import torch


def run(q, k_cache, v_cache, qo_indptr, kv_indptr, kv_indices, sm_scale, output, lse):
    output.zero_()
    lse.fill_(-math.inf)
    group = q.shape[1] // k_cache.shape[2]
    queries, pages = qo_indptr.tolist(), kv_indptr.tolist()
    for request in range(len(queries) - 1):
        begin, end = queries[request : request + 2]
        own = kv_indices[pages[request] : pages[request + 1]].long()
        keys = k_cache[own].flatten(0, 1).float()
        values = v_cache[own].flatten(0, 1).float()
        for query in range(begin, end):
            seen = len(keys) - (end - 1 - query)
            if seen <= 0:
                continue
            for kv_head in range(k_cache.shape[2]):
                heads = slice(kv_head * group, (kv_head + 1) * group)
                logits = q[query, heads].float() @ keys[:seen, kv_head].t() * sm_scale
                whole = torch.logsumexp(logits, dim=-1, keepdim=True)
                lse[query, heads] = whole.squeeze(-1) / math.log(2.0)
                output[query, heads] = (logits - whole).exp() @ values[:seen, kv_head]
