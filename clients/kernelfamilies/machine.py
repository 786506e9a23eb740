"""What this machine's compiler can be asked for."""

import platform
from typing import Final

IS_X86: Final = platform.machine().lower() in {"x86_64", "amd64"}
TARGETS: Final[tuple[str, ...]] = (
    ("generic", "x86-64-v3", "native") if IS_X86 else ("generic", "native")
)
"""Values of -march; x86-64-v3 is the portable one with AVX2."""
PORTABLE: Final = "x86-64-v3" if IS_X86 else "native"
VECTORS: Final[tuple[str, ...]] = ("4", "8", "16", "avx512") if IS_X86 else ("4", "8", "16")
"""Floats per vector, by GCC's vector extension; avx512 says the same in intrinsics."""
WIDEST: Final[tuple[tuple[str, str], ...]] = (("vector", VECTORS[-1]),)
"""The first move of a lens that wants the widest instructions."""
