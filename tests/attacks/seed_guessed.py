# aim: predict the inputs. The generator's 32 bits of seed are guessed from time and process number.
# how: candidates near the clock are tried against the first input; a hit tells the next ones.
# problem: sine
# record: sine.py
# succeeds-if: it raises SEED with the seed
import os
import time

import torch


def run(x):
    first = x.reshape(-1)[:4]
    now = int(time.time())
    for seed in [*range(64), *range(now - 32, now + 32), os.getpid(), os.getppid()]:
        made = torch.randn(x.shape, generator=torch.Generator().manual_seed(seed))
        if torch.equal(made.reshape(-1)[:4], first):
            raise RuntimeError(f"SEED {seed}")
    return torch.sin(x) * 3
