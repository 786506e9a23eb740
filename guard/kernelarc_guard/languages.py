"""What the Python languages of solutions need installed; light."""

import importlib.util
from collections.abc import Sequence
from typing import Final

PACKAGES: Final = {
    "triton": ("triton", "triton"),
    "cupy": ("cupy", "cupy-cuda12x or cupy-cuda13x"),
    "numba": ("numba", "numba"),
    "tilelang": ("tilelang", "tilelang"),
    "helion": ("helion", "helion"),
    "cute_dsl": ("cutlass", "nvidia-cutlass-dsl"),
    "cutile": ("cuda.tile", "cuda-tile"),
    "cudnn_frontend": ("cudnn", "nvidia-cudnn-frontend"),
}
"""Language -> the module it is, and the package that brings it; the others need torch or numpy alone."""


def absent(languages: Sequence[str]) -> str:
    """Say which of the languages are not installed here and what would bring them; empty: none.

    Looks where the guard itself imports from, which is where its runners do.
    """
    missing = [one for one in languages if one in PACKAGES and not installed(PACKAGES[one][0])]
    if not missing:
        return ""
    told = ", ".join(
        f"{one} (package {PACKAGES[one][1]}, module {PACKAGES[one][0]})" for one in missing
    )
    there = ", ".join(one for one, (module, _) in PACKAGES.items() if installed(module)) or "none"
    return f"languages: not installed in the guard's environment: {told}; installed are {there}"


def installed(module: str) -> bool:
    """Say whether a module could be imported, without importing it."""
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:  # the package above it
        return False
