# The result is a part of a wider buffer.
# problem: scale_rows
# expects: right
import torch


def norm(x, norm_weight):
    return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * norm_weight


def run(x, norm_weight):
    room = torch.empty(x.shape[0], x.shape[1] + 24)
    out = room[:, : x.shape[1]]
    out.copy_(norm(x, norm_weight))
    return out
