"""With which files a host builds native solutions, in words that are equal only where its builds are; light."""

import hashlib
import platform
from functools import lru_cache
from typing import Final

from kernelarc_guard.cuda.nvcc import find_nvcc
from kernelarc_guard.device_names import device_name
from kernelarc_guard.toolchain import find_toolchain, find_torch

BUILDER: Final = "builder"
"""In place of a device: a host that only builds, for whatever device."""


@lru_cache(maxsize=8)
def built_with(place: str) -> dict[str, str]:
    """Return name -> what decides what a build for a torch device makes here, beside sources and flags.

    For `BUILDER` all that decides it for any device; empty where nothing can be built. Equal values mean equal
    keys in a build cache, but for a GPU's solutions whose flags ask for the processor's own instructions.
    """
    toolchain, nvcc = find_toolchain(), find_nvcc() if place != "cpu" else None
    if toolchain is None:
        return {}
    found = {"machine": platform.machine(), "C++ compiler": _short(toolchain.anywhere)}
    found["C++ headers"] = str(toolchain.include or "none")
    if place in ("cpu", BUILDER):
        found["processor"] = f"{device_name('cpu')} ({_digest(toolchain.processor)})"
    if nvcc is not None:
        torch = find_torch()
        found["nvcc program"] = _short(nvcc.identity)
        found["torch headers"] = "none"
        if torch is not None:
            found["torch headers"] = f"{torch.libraries.parent} ({_digest(torch.identity)})"
    return found


def _short(identity: str) -> str:
    """Return an identity's first line, with a digest of all of it."""
    return f"{identity.partition(chr(10))[0]} ({_digest(identity)})"


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:8]
