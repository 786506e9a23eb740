"""What the library does: on an NVIDIA GPU this is cuBLAS."""

import torch


def run(a, b, c):
    torch.mm(a, b, out=c)
