# aim: peek through inherited descriptors.
# how: every open descriptor is named, and read or mapped where it can be.
# problem: sine
# record: sine.py
# succeeds-if: it raises PEEKED with a descriptor other than its log, its own buffers, its own socket and /dev/null
import os

import torch

FOUND = []
for name in os.listdir("/proc/self/fd"):
    try:
        target = os.readlink(f"/proc/self/fd/{name}")
    except OSError:
        continue
    own = ("/dev/null", "/memfd:log", "/memfd:kernelarc", "socket:", "/proc/")
    if not target.startswith(own) and "kernelarc_solution" not in target:
        FOUND.append(f"{name}: {target}")


def run(x):
    if FOUND:
        raise RuntimeError("PEEKED " + ", ".join(FOUND))
    return torch.sin(x) * 3
