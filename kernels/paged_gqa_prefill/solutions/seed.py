"""Request by request and key head by key head, all logits written out."""

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
        # The first queries that see no key are left as they are.
        begin = max(begin, end - len(own))
        if begin == end:
            continue
        keys = k_cache[own].flatten(0, 1).float()
        values = v_cache[own].flatten(0, 1).float()
        last = torch.arange(begin, end, device=q.device) + len(own) - end
        later = torch.arange(len(own), device=q.device) > last[:, None, None]
        for kv_head in range(k_cache.shape[2]):
            heads = slice(kv_head * group, (kv_head + 1) * group)
            logits = q[begin:end, heads].float() @ keys[:, kv_head].t() * sm_scale
            logits = logits.masked_fill(later, -math.inf)
            whole = torch.logsumexp(logits, dim=-1, keepdim=True)
            lse[begin:end, heads] = whole.squeeze(-1) / math.log(2.0)
            output[begin:end, heads] = ((logits - whole).exp() @ values[:, kv_head]).to(q.dtype)
