# The result lies column by column.
# problem: bend
# expects: right
import torch


def run(x):
    return (torch.sin(x.t().contiguous()) * 3).t()
