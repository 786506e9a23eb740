# An honest kernel for heads.
import torch


def run(x, g):
    return torch.cat([x.unsqueeze(0)] * g)
