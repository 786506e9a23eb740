# Counts on the strides that the problem draws.
# problem: sideways
# expects: right
import torch


def run(x):
    assert x.stride() == (1, x.shape[0]), x.stride()
    return torch.add(x, x)
