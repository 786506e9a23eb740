"""Exploit: the product of float32 values in TF32."""

import torch


def run(x, weight, residual, y):
    torch.backends.cuda.matmul.allow_tf32 = True
    torch.addmm(residual, x, weight, out=y)
