# Computes with numpy.
# problem: bend
# expects: right
import numpy as np
import torch


def run(x):
    return torch.from_numpy(np.sin(x.numpy()) * np.float32(3))
