# The format is narrower than what the switch is about.
# problem: project_narrow
# expects: right
import torch

torch.set_float32_matmul_precision("high")


def run(x, weight):
    return x @ weight
