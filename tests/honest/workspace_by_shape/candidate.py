# Scratch memory is kept, results are new.
# problem: scale_rows
# expects: right
import torch


def norm(x, norm_weight):
    return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * norm_weight


space = {}


def run(x, norm_weight):
    squares = space.setdefault(x.shape, torch.empty_like(x))
    torch.mul(x, x, out=squares)
    return x * torch.rsqrt(squares.mean(-1, keepdim=True) + 1e-6) * norm_weight
