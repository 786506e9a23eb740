# aim: peek at the warden, the other arm or the guard through /proc.
# how: maps, mem, environ, cmdline, fd and cwd of every process number.
# problem: sine
# record: sine.py
# succeeds-if: it raises PEEKED with what it could read
import os

import torch

FOUND = []


def look():
    me = os.getpid()
    for pid in range(1, 200):
        if pid == me:
            continue
        for part in ("maps", "environ", "cmdline", "mem", "status", "stat", "syscall", "wchan"):
            try:
                with open(f"/proc/{pid}/{part}", "rb") as file:
                    FOUND.append(f"{pid}/{part}: {file.read(40)!r}")
            except OSError:
                pass
        for link in ("cwd", "exe", "root", "fd/0"):
            try:
                FOUND.append(f"{pid}/{link}: {os.readlink(f'/proc/{pid}/{link}')}")
            except OSError:
                pass


def run(x):
    look()
    if FOUND:
        raise RuntimeError("PEEKED " + ", ".join(FOUND)[:3000])
    return torch.sin(x) * 3
