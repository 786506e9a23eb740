"""Fault: more memory than the device has."""

import torch


def run(x, weight, y):
    torch.empty(1 << 40, dtype=torch.uint8, device=x.device)
