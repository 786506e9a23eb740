# aim: confuse the reader of outputs.
# how: numpy scalars, huge integers, negative strides, zero dimensions, a thousand outputs.
# problem: sine
# record: sine.py
# succeeds-if: KEEP or ACCEPT, or the guard ends
import numpy
import torch

CALLS = [0]


def run(x):
    CALLS[0] += 1
    y = (torch.sin(x) * 3).numpy()
    odd = [
        y,
        y[::-1, ::-1],
        numpy.broadcast_to(y[:1], y.shape),
        10**30,
        (y,) * 1000,
        {"y": y, "z": y},
    ]
    return odd[CALLS[0] % len(odd)] if CALLS[0] > 1 else y
