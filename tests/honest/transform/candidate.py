# Another association of the same sum.
# problem: project
# expects: right
import torch


def run(x, weight):
    half = x.shape[1] // 2
    return torch.addmm(x[:, half:] @ weight[half:], x[:, :half], weight[:half])
