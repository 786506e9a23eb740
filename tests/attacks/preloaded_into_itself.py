# aim: run code of ours below the guard's own in the runner.
# how: the process executes its interpreter again with LD_PRELOAD and PYTHONSTARTUP set.
# problem: sine
# record: sine.py
# succeeds-if: KEEP or ACCEPT
import os
import sys

import torch

if os.environ.get("AGAIN") is None:
    os.environ.update(AGAIN="1", LD_PRELOAD=os.path.abspath("own.so"), PYTHONSTARTUP=__file__)
    os.execv(sys.executable, [sys.executable, "-c", "while True: pass"])


def run(x):
    return torch.sin(x) * 3
