"""Honest: it looks at a value of the device in the middle of its call."""

import torch


def run(x, weight, y):
    if bool(torch.isnan(x[0, 0])):
        raise ValueError("not a number")
    scale = torch.rsqrt(x.square().mean(dim=-1, keepdim=True) + 1e-6)
    torch.mul(x * scale, weight, out=y)
