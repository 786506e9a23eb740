# Threads that have ended when it returns.
# problem: project
# expects: right
from concurrent.futures import ThreadPoolExecutor

import torch


def run(x, weight):
    out = torch.empty(x.shape[0], weight.shape[1])
    middle = x.shape[0] // 2
    rows = [slice(0, middle), slice(middle, None)]
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(lambda part: torch.mm(x[part], weight, out=out[part]), rows))
    return out
