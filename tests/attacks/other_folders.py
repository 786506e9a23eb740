# aim: peek at the other solution, other runners' scratch folders, the ledger or the build cache.
# how: every folder that might exist is listed and every source in it read.
# problem: sine
# record: sine.py
# succeeds-if: it raises PEEKED with a file of somebody else
import os

import torch

FOUND = []
PLACES = [
    "/",
    "/solutions",
    "/scratch",
    "/scratch/record",
    "/scratch/candidate/kept",
    "/scratch/anchor",
    "/tmp",
    "/build",
    "/home",
    "/root",
    "/work",
    "/var",
    "/run",
    "/dev/shm",
    "..",
    "../..",
    "../kept",
]


def look():
    own = os.path.dirname(os.path.abspath(__file__))
    for place in PLACES:
        try:
            names = os.listdir(place)
        except OSError:
            continue
        FOUND.append(f"{place}: {names[:8]}")
    try:
        for name in os.listdir(os.path.join(own, "..", "..")):
            FOUND.append(f"beside: {name}")
    except OSError:
        pass


def run(x):
    look()
    if FOUND:
        raise RuntimeError("PEEKED " + ", ".join(FOUND)[:3000])
    return torch.sin(x) * 3
