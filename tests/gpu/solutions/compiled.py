"""Honest: the reference through torch.compile."""

import torch


@torch.compile
def _work(x, weight):
    return x * torch.rsqrt(x.square().mean(dim=-1, keepdim=True) + 1e-6) * weight


def run(x, weight):
    return _work(x, weight)
