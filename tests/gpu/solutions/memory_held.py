"""Fault: it takes nearly all the device's memory and keeps it."""

import torch

_held = []


def run(x, weight, y):
    if not _held:
        free, _ = torch.cuda.mem_get_info()
        _held.append(torch.empty(free - (16 << 20), dtype=torch.uint8, device=x.device))
    scale = torch.rsqrt(x[:1].square().mean(dim=-1, keepdim=True) + 1e-6)
    torch.mul(x[:1] * scale, weight, out=y[:1])
