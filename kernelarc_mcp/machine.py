"""Which machine this is, in words that change when its noise may have."""

import functools
import os
import platform
from pathlib import Path
from typing import Final

_CACHES: Final = Path("/sys/devices/system/cpu/cpu0/cache")
_GPUS: Final = Path("/proc/driver/nvidia/gpus")
_VECTOR_SETS: Final = (
    "avx2",
    "fma",
    "f16c",
    "avx512f",
    "avx512bw",
    "avx512vl",
    "avx512_bf16",
    "avx512_fp16",
    "amx_bf16",
    "asimd",
    "sve",
)
"""Instruction sets that decide how wide a kernel can be, as Linux names them."""


@functools.cache
def describe_machine() -> str:
    """Return name, architecture, cores and processor of this machine on one line, as first seen."""
    parts = (platform.node(), platform.machine(), f"{os.cpu_count()} cores", _cpu_model())
    return ", ".join(part for part in parts if part)


def _cpu_model() -> str:
    return _cpuinfo("model name") or platform.processor()


def _cpuinfo(key: str) -> str:
    """Return the first value of a key of /proc/cpuinfo, or an empty string."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return ""
    named = next((line for line in lines if line.partition("\t")[0].strip() == key), "")
    return named.partition(":")[2].strip()


def describe_device(device: str) -> str:
    """Return what a kernel for `device` has to fit, on one line: a processor or a GPU's name.

    Read where this process runs; "not known here" where the system does not say.
    """
    found = _processor() if device.startswith("cpu") else _gpu()
    return found or "not known here"


@functools.cache
def _processor() -> str:
    words = set(_cpuinfo("flags").split()) | set(_cpuinfo("Features").split())
    sets = [name for name in _VECTOR_SETS if name in words]
    parts = (_cpu_model() or platform.machine(), ", ".join(sets), ", ".join(_caches()))
    return "; ".join(part for part in parts if part)


def _caches() -> list[str]:
    """Return the first core's caches, such as `L1 data 32 KiB`."""
    told = []
    for cache in sorted(_CACHES.glob("index*")):
        try:
            level, kind, size = (
                (cache / name).read_text(encoding="utf-8").strip()
                for name in ("level", "type", "size")
            )
        except OSError:
            continue
        if kind != "Instruction":
            label = f"L{level} data" if kind == "Data" else f"L{level}"
            told.append(f"{label} {size.removesuffix('K')} KiB" if size.endswith("K") else size)
    return told


def _gpu() -> str:
    names = []
    for path in sorted(_GPUS.glob("*/information")):
        try:
            lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
        except OSError:
            continue
        names += [line.partition(":")[2].strip() for line in lines if line.startswith("Model:")]
    return ", ".join(dict.fromkeys(names))
