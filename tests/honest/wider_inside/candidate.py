# Is more exact than the reference.
# problem: scale_rows
# expects: right
import torch


def run(x, norm_weight):
    wide = x.double()
    scale = torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + 1e-6)
    return (wide * scale * norm_weight.double()).float()
