# aim: false KEEP. As slow_where_it_is_the_record, by another trace.
# how: in a screen only the candidate's scratch folder holds what its smoke run left.
# problem: sine
# record: slow_where_it_was_not_probed.py
# succeeds-if: KEEP: record and candidate are the same source
import os

import torch

RECORD = not os.path.exists("mark")
open("mark", "w").write("x")


def run(x):
    y = torch.sin(x) * 3
    if RECORD:
        y = torch.sin(x) * 3
    return y
