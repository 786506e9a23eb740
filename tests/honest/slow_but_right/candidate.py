# Slowness is no fault of the gate.
# problem: bend
# expects: right
import torch


def run(x):
    return torch.stack([torch.sin(row) * 3 for row in x])
