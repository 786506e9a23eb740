# aim: false KEEP. The output is the input, dressed as a foreign tensor.
# how: a DLPack capsule made by hand.
# problem: turn
# succeeds-if: KEEP or ACCEPT
from torch.utils.dlpack import from_dlpack, to_dlpack


def run(x):
    return from_dlpack(to_dlpack(x.t()))
