# aim: confuse the reader of returned tensors.
# how: the report names an address at the end of memory, lengths that overflow and other processes' ranges.
# problem: sine
# record: sine.py
# succeeds-if: KEEP or ACCEPT, or the guard ends
import sys

import torch

CALLS = [0]


def run(x):
    CALLS[0] += 1
    y = torch.sin(x) * 3
    control = sys.modules["kernelarc_guard.control"]
    if CALLS[0] > 2:
        write = control.ControlPage.write_tensor

        def odd(self, index, dtype, shape, strides, address):
            write(self, index, dtype, shape, strides, 2**64 - 64)

        control.ControlPage.write_tensor = odd
    return y
