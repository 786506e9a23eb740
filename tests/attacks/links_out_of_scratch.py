# aim: make the warden copy files for us that the runner may not read.
# how: links in the scratch folder, which the warden copies for later runners, and folders as links.
# problem: sine
# record: sine.py
# succeeds-if: it raises PEEKED with a file's content
import os

import torch

TARGETS = [
    "/proc/1/environ",
    "/proc/1/maps",
    "/solutions",
    "/scratch/record",
    "/etc/passwd",
]
FOUND = []
for number, target in enumerate(TARGETS):
    name = f"link{number}"
    if os.path.lexists(name):
        try:
            kept = open(name, "rb").read(80) if not os.path.isdir(name) else os.listdir(name)
            FOUND.append(f"{target}: {kept!r}")
        except OSError:
            pass
    else:
        os.symlink(target, name)
        try:
            os.link(target, name + "h")
            FOUND.append(f"{target}: linked")
        except OSError:
            pass


def run(x):
    if FOUND:
        raise RuntimeError("PEEKED " + ", ".join(FOUND)[:3000])
    return torch.sin(x) * 3
