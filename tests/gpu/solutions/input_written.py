"""Exploit: the input is scaled in place."""

import torch


def run(x, weight, y):
    scale = torch.rsqrt(x.square().mean(dim=-1, keepdim=True) + 1e-6)
    torch.mul(x * scale, weight, out=y)
    x.mul_(0.5)
