"""Exploit: the call returns, and says done, while a stream of its own is still at work."""

import torch

_side = []


def run(x, weight, y):
    if not _side:
        _side.append(torch.cuda.Stream())
    scale = torch.rsqrt(x.square().mean(dim=-1, keepdim=True) + 1e-6)
    _side[0].wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(_side[0]):
        torch.cuda._sleep(40_000_000)
        torch.mul(x * scale, weight, out=y)
