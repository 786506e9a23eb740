# Compiles its C in its scratch folder when it is imported.
# problem: bend
# expects: right
import ctypes
import os
import subprocess
import tempfile

import torch

SOURCE = """#include <math.h>
void bend(const float* x, float* y, long n) {
  for (long i = 0; i < n; ++i) y[i] = 3.0f * sinf(x[i]);
}
"""
folder = tempfile.mkdtemp()
with open(os.path.join(folder, "k.c"), "w") as file:
    file.write(SOURCE)
subprocess.run(
    ["cc", "-O2", "-shared", "-fPIC", "k.c", "-o", "k.so", "-lm"], cwd=folder, check=True
)
library = ctypes.CDLL(os.path.join(folder, "k.so"))


def run(x):
    x = x.contiguous()
    y = torch.empty_like(x)
    library.bend(
        ctypes.c_void_p(x.data_ptr()), ctypes.c_void_p(y.data_ptr()), ctypes.c_long(x.numel())
    )
    return y
