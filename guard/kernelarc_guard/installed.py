"""Which versions solutions are compiled and run with on a device; light, and imports no torch."""

import platform
import re
from collections.abc import Mapping
from functools import lru_cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Final

from kernelarc_guard.cuda.nvcc import find_nvcc
from kernelarc_guard.toolchain import find_toolchain

_PACKAGES: Final = {"torch": ("torch",), "numpy": ("numpy",), "tvm-ffi": ("apache-tvm-ffi",)}
_GPU_PACKAGES: Final = {
    "triton": ("triton",),
    "cupy": ("cupy", "cupy-cuda12x", "cupy-cuda13x"),
    "cuda-python": ("cuda-python",),
}
_DRIVER: Final = Path("/proc/driver/nvidia/version")
_MODULE: Final = re.compile(r"Kernel Module(?: for \S+)?\s+(\d\S*)")
_CLANG: Final = re.compile(r"clang version (\d[\d.]*)")
_GCC: Final = re.compile(r"\) (\d[\d.]*)")
_RELEASE: Final = re.compile(r"\bV(\d\S*)")


@lru_cache(maxsize=8)
def installed(place: str) -> Mapping[str, str]:
    """Return name -> version of what this process's environment offers for a torch device.

    Compilers, Python and packages; for a GPU the driver and its own name too. What is not there is left
    out. Runs the compilers once.
    """
    gpu = place != "cpu"
    found = {"C++": _compiler(), "nvcc": nvcc_version() if gpu else ""}
    found["Python"] = platform.python_version()
    packages = _PACKAGES | (_GPU_PACKAGES if gpu else {})
    found |= {name: _first(names) for name, names in packages.items()}
    if gpu:
        from kernelarc_guard.cuda import driver

        driver.device_count()  # opens the library, whoever asks first
        found["driver"] = _driver()
        found["CUDA"] = driver.cuda_version()
        found["GPU"] = driver.device_name(int(place.partition(":")[2]))
    return {name: told for name, told in found.items() if told}


def changed(before: Mapping[str, str], now: Mapping[str, str]) -> list[str]:
    """Return a line for each version that is another one than before; none where none are known."""
    if not before:
        return []
    return [
        f"toolchain_changed: {name} is {now.get(name, 'gone')}; the calibration was measured with "
        f"{before.get(name, 'none')}"
        for name in {**before, **now}
        if before.get(name) != now.get(name)
    ]


def _compiler() -> str:
    toolchain = find_toolchain()
    return short_name(toolchain.version, toolchain.is_clang) if toolchain is not None else ""


def short_name(told: str, is_clang: bool) -> str:
    """Return a compiler's kind and version from the line with which it names itself."""
    if is_clang:
        clang = _CLANG.search(told)
        return f"clang {clang[1]}" if clang else told
    gcc = _GCC.search(told)
    return f"GCC {gcc[1]}" if gcc else told


def nvcc_version() -> str:
    """Return the release of NVIDIA's compiler, empty where there is none."""
    nvcc = find_nvcc()
    release = _RELEASE.search(nvcc.identity) if nvcc is not None else None
    return release[1] if release else ""


def _first(names: tuple[str, ...]) -> str:
    for name in names:
        try:
            return version(name)
        except PackageNotFoundError:
            continue
    return ""


def _driver() -> str:
    try:
        text = _DRIVER.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""  # a container may not show it
    module = _MODULE.search(text)
    return module[1] if module else ""
