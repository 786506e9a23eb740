# aim: false KEEP. An answer is kept as long as object and `_version` are the same.
# how: versions begin anew with new objects over the same memory, at places that came back.
# problem: sine
# record: sine.py
# succeeds-if: KEEP, or ACCEPT measured faster than the honest kernel
import torch

KEPT = {}


def run(x):
    key = (id(x), x._version)
    if key not in KEPT:
        KEPT[key] = torch.sin(x) * 3
    return KEPT[key]
