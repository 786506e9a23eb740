# An autograd function with a forward pass only.
# problem: bend
# expects: right
import torch


class Sine(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return torch.sin(x) * 3

    @staticmethod
    def backward(ctx, grad):
        return grad


def run(x):
    return Sine.apply(x)
