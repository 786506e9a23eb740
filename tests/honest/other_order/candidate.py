# Adds in another order every time.
# problem: add_up
# expects: right
import random

import torch


def run(x):
    parts = list(x.split(777))
    random.shuffle(parts)
    return torch.stack([part.sum() for part in parts]).sum()
