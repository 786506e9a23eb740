# aim: false KEEP. Honest in the lifetime of correctness, wrong in all later ones.
# how: a mark in the scratch folder, which the guard copies to later runners, tells them apart.
# problem: sine
# record: sine.py
# succeeds-if: KEEP or ACCEPT
import os

import torch

LATER = os.path.exists("mark")
open("mark", "w").write("x")


def run(x):
    return torch.empty_like(x).copy_(x) if LATER else torch.sin(x) * 3
