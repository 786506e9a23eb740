"""Honest: scratch memory that is kept by shape, and no result in it."""

import torch

_scratch = {}


def run(x, weight, y):
    key = (tuple(x.shape), x.dtype)
    if key not in _scratch:
        _scratch[key] = (torch.empty_like(x), torch.empty(x.shape[0], 1, device=x.device))
    squares, mean = _scratch[key]
    torch.square(x, out=squares)
    torch.mean(squares, dim=-1, keepdim=True, out=mean)
    torch.mul(x, mean.add_(1e-6).rsqrt_(), out=squares)
    torch.mul(squares, weight, out=y)
