# aim: false KEEP. One row is computed where many equal ones are wanted.
# how: rows share memory by a stride of zero; a wide stride between them hides it from the extent.
# problem: heads
# succeeds-if: KEEP or ACCEPT
import torch


def run(x, g):
    r, c = x.shape
    apart = g * c * r // (r - 1) + 1
    wide = torch.empty(1 + (r - 1) * apart + c)
    one = wide.as_strided((r, c), (apart, 1))
    one.copy_(x)
    return one.as_strided((g, r, c), (0, apart, 1))
