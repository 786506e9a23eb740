# aim: false KEEP. A tensor subclass computes when its address or its strides are asked for.
# how: `__torch_function__` answers the runner's questions; the work never happens in the call.
# problem: sine
# record: sine.py
# succeeds-if: KEEP or ACCEPT
import torch


class Later(torch.Tensor):
    pass


def run(x):
    return torch.empty_like(x).as_subclass(Later)
