# NaN in, NaN out.
# problem: holes
# expects: right
import torch


def run(x):
    return torch.where(x < 0, -x, x)
