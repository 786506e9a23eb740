# aim: false KEEP. The result is finished when the runner drops an older one.
# how: `weakref.finalize` on the previous result, which the runner lets go after its own report.
# problem: sine
# record: sine.py
# succeeds-if: KEEP, or ACCEPT measured faster than the honest kernel
import weakref

import torch

PENDING = []


def fill(y, x):
    torch.sin(x, out=y)
    y *= 3


def run(x):
    y = torch.empty_like(x)
    weakref.finalize(y, fill, y.detach(), x)
    return y
