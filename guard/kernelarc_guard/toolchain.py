"""Which C++ compiler and headers this machine builds native solutions with; light."""

import hashlib
import importlib.util
import platform
import shutil
import subprocess
import sys
import sysconfig
from dataclasses import dataclass
from functools import lru_cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Final

EXTENSION: Final = "kernel"
"""Name of the Python module that a torch extension is."""
_CANDIDATES: Final = ("c++", "g++", "clang++")


@dataclass(frozen=True)
class Toolchain:
    """A compiler and the place of the binding's headers and library."""

    compiler: str
    version: str
    """The first line of what it says of itself."""
    anywhere: str
    """All that can change what it makes of the same sources and flags, unless these ask for the processor's own
    instructions."""
    processor: str
    """What ``native`` in a flag stands for."""
    is_clang: bool
    include: Path | None
    """Headers of tvm-ffi and DLPack, where tvm-ffi is installed."""
    libraries: Path | None

    @property
    def identity(self) -> str:
        """Return all that can change what it makes of the same sources and flags: for the cache's key."""
        return f"{self.anywhere}\n{self.processor}"


@lru_cache(maxsize=1)
def find_toolchain() -> Toolchain | None:
    """Return this machine's toolchain, or None where there is no C++ compiler."""
    compiler = next((path for name in _CANDIDATES if (path := shutil.which(name))), None)
    if compiler is None:
        return None
    told = subprocess.run(
        [compiler, "--version"], capture_output=True, text=True, timeout=60, check=True
    ).stdout
    package = _tvm_ffi()
    return Toolchain(
        compiler=compiler,
        version=told.partition("\n")[0].strip(),
        anywhere="\n".join([compiler, told, _tvm_ffi_version()]),
        processor=_processor(),
        is_clang="clang" in told,
        include=package / "include" if package else None,
        libraries=package / "lib" if package else None,
    )


@dataclass(frozen=True)
class TorchFiles:
    """What an extension of torch is compiled and linked with."""

    includes: tuple[Path, ...]
    libraries: Path
    identity: str


@lru_cache(maxsize=1)
def find_torch() -> TorchFiles | None:
    """Return torch's headers and libraries, None where they or Python's headers are missing."""
    root, python = _package("torch"), Path(sysconfig.get_path("include"))
    if root is None or not (python / "Python.h").is_file():
        return None
    own = root / "include"
    # The wheels that bring CUDA's libraries bring headers that a small toolkit lacks.
    wheels = sorted((root.parent / "nvidia").glob("*/include"))
    includes = (own, own / "torch" / "csrc" / "api" / "include", python, *wheels)
    identity = f"torch {version('torch')}, Python {sys.version}"
    return TorchFiles(includes, root / "lib", identity)


def _tvm_ffi() -> Path | None:
    """Return the folder of the installed package, without the seconds that importing it takes."""
    return _package("tvm_ffi")


def _package(name: str) -> Path | None:
    spec = importlib.util.find_spec(name)
    places = (spec.submodule_search_locations or []) if spec else []
    return next((Path(place) for place in places), None)


def _tvm_ffi_version() -> str:
    try:
        return version("apache-tvm-ffi")
    except PackageNotFoundError:
        return ""


def _processor() -> str:
    """Identify what -march=native stands for."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    except FileNotFoundError:
        return platform.machine()
    named = ("model name", "flags", "Features", "CPU part")
    wanted = sorted({line for line in lines if line.startswith(named)})
    return hashlib.sha256("\n".join(wanted).encode()).hexdigest()
