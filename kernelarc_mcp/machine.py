"""Which machine this is, in words that change when its noise may have."""

import os
import platform
from pathlib import Path


def describe_machine() -> str:
    """Return name, architecture, cores and processor of this machine on one line."""
    parts = (platform.node(), platform.machine(), f"{os.cpu_count()} cores", _cpu_model())
    return ", ".join(part for part in parts if part)


def _cpu_model() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return platform.processor()
    named = next((line for line in lines if line.startswith("model name")), "")
    return named.partition(":")[2].strip()
