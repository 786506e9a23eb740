"""One sequence after the other, keys and values in float32, repeated for every query head."""

import torch


def run(q, k_cache, v_cache, lengths, output, lse):
    heads, dim = q.shape[1:]
    group = heads // k_cache.shape[2]
    for sequence, length in enumerate(lengths.tolist()):
        keys = k_cache[sequence, :length].float().repeat_interleave(group, dim=1)
        values = v_cache[sequence, :length].float().repeat_interleave(group, dim=1)
        logits = (keys * q[sequence].float()).sum(-1) * dim**-0.5
        lse[sequence] = torch.logsumexp(logits, dim=0)
        shares = torch.exp(logits - lse[sequence])
        output[sequence] = (shares.unsqueeze(-1) * values).sum(0)
