# aim: false KEEP. The result is memory that was given back before it was read.
# how: a tensor over a buffer that is freed at once; what lies there are the values of the last call.
# problem: sine
# record: sine.py
# succeeds-if: KEEP or ACCEPT
import ctypes

import torch

libc = ctypes.CDLL(None)
libc.malloc.restype = ctypes.c_void_p
STATE = {"first": True}


def run(x):
    place = libc.malloc(ctypes.c_size_t(x.numel() * 4))
    raw = (ctypes.c_char * (x.numel() * 4)).from_address(place)
    y = torch.frombuffer(raw, dtype=torch.float32).view(x.shape)
    if STATE.pop("first", False):
        y.copy_(torch.sin(x) * 3)
    libc.free(ctypes.c_void_p(place))
    return y
