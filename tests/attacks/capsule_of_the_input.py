# aim: false KEEP. The output is the input, dressed as a foreign tensor.
# how: a DLPack capsule made by hand, with a shape and strides of its own.
# problem: turn
# succeeds-if: KEEP or ACCEPT
from torch.utils.dlpack import from_dlpack, to_dlpack


def run(x):
    return from_dlpack(to_dlpack(x.as_strided(x.shape, (1, x.shape[1]))))
