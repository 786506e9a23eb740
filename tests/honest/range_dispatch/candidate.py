# Takes a short way where it is exact.
# problem: bend
# expects: right
import torch


def run(x):
    if float(x.abs().max()) < 1e-4:
        return (x - x * x * x / 6) * 3
    return torch.sin(x) * 3
