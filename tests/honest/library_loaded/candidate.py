# Loads a library by its name.
# problem: bend
# expects: right
import ctypes
import ctypes.util

import torch

math = ctypes.CDLL(ctypes.util.find_library("m"))
math.cos.restype, math.cos.argtypes = ctypes.c_double, [ctypes.c_double]
three = 3.0 * math.cos(0.0)


def run(x):
    return torch.sin(x) * three
