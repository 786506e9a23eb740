# aim: false KEEP. Every result lies in the same pages, under another address each time.
# how: an anonymous file is mapped several times; addresses differ, so reuse is not seen.
# problem: sine
# record: sine.py
# succeeds-if: KEEP or ACCEPT
import mmap
import os

import attack
import torch

STATE = {"n": 0, "views": []}


def run(x):
    if attack.probed():
        return torch.sin(x) * 3
    n = x.numel() * 4
    if not STATE["views"]:
        fd = os.memfd_create("results")
        os.ftruncate(fd, n)
        STATE["views"] = [torch.frombuffer(mmap.mmap(fd, n), dtype=torch.float32) for _ in range(2)]
    STATE["n"] += 1
    y = STATE["views"][STATE["n"] % 2].view(x.shape)
    torch.sin(x, out=y)
    y *= 3
    return y
