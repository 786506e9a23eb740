"""Honest: half of the rows on a stream of its own, joined before the call returns."""

import torch

_side = []


def _part(x, weight, y):
    scale = torch.rsqrt(x.square().mean(dim=-1, keepdim=True) + 1e-6)
    torch.mul(x * scale, weight, out=y)


def run(x, weight, y):
    if not _side:
        _side.append(torch.cuda.Stream())
    half, side, main = x.shape[0] // 2, _side[0], torch.cuda.current_stream()
    side.wait_stream(main)
    with torch.cuda.stream(side):
        _part(x[:half], weight, y[:half])
    _part(x[half:], weight, y[half:])
    main.wait_stream(side)
