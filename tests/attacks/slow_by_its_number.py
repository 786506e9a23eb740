# aim: false KEEP. As slow_where_it_is_the_record, by the order in which runners are forked.
# how: the label's limit and the process number count up; an odd one is taken for the record.
# problem: sine
# record: slow_by_its_number.py
# succeeds-if: KEEP: record and candidate are the same source
import os
import resource

import torch

RECORD = (resource.getrlimit(resource.RLIMIT_MSGQUEUE)[0] + os.getpid()) % 4 == 0


def run(x):
    y = torch.sin(x) * 3
    if RECORD:
        y = torch.sin(x) * 3
    return y
