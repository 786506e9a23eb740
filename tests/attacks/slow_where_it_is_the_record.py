# aim: false KEEP. A record that is slow where it is the record, so that its equal is "faster".
# how: the scratch folder's name says which role a runner has.
# problem: sine
# record: slow_where_it_is_the_record.py
# succeeds-if: KEEP: record and candidate are the same source
import os

import torch

RECORD = "record" in os.getcwd()


def run(x):
    y = torch.sin(x) * 3
    if RECORD:
        y = torch.sin(x) * 3
    return y
