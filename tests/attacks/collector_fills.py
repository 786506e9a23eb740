# aim: false KEEP. The garbage collector's callback does the work between report and stop.
# how: `gc.callbacks` with a threshold of one, so that the next allocation triggers it.
# problem: sine
# record: sine.py
# succeeds-if: KEEP, or ACCEPT measured faster than the honest kernel
import gc

import torch

STATE = {}


def fill(phase, info):
    if "y" in STATE:
        y, x = STATE.pop("y"), STATE.pop("x")
        torch.sin(x, out=y)
        y *= 3


gc.callbacks.append(fill)
gc.set_threshold(1, 1, 1)


def run(x):
    y = torch.empty_like(x)
    STATE.update(y=y, x=x)
    return y
