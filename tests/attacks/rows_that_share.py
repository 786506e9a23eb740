# aim: false KEEP. One row is computed where many equal ones are wanted.
# how: rows share memory by a stride of zero; a wide stride of the columns hides it from the extent.
# problem: heads
# succeeds-if: KEEP or ACCEPT
import torch


def run(x, g):
    r, c = x.shape
    wide = torch.empty(r * c * (g + 1))
    one = wide.as_strided((r, c), (c * (g + 1), g + 1))
    one.copy_(x)
    return one.as_strided((g, r, c), (0, c * (g + 1), g + 1))
