"""Which compiler and linker flags a solution may ask for: those that read and write nothing else."""

import re
from collections.abc import Sequence
from pathlib import PurePosixPath
from typing import Final

DEFAULT: Final = ("-std=c++17", "-O3", "-march=native")
"""Before a solution's own flags, which win."""
_COMPILER: Final = re.compile(
    r"-O(?:[0-3sg]|fast)?"
    r"|-std=(?:c|gnu)\+\+\w+"
    r"|-f[A-Za-z0-9][\w+-]*(?:=[\w.,+-]+)?"
    r"|-m[a-z0-9][\w.+-]*(?:=[\w.,+-]+)?"
    r"|-W[a-z0-9][\w+-]*(?:=[\w.+-]+)?|-w|-pedantic(?:-errors)?"
    r"|-D[A-Za-z_]\w*(?:=[^\n\x00]*)?|-U[A-Za-z_]\w*"
    r"|-g[0-3]?|-pthread|-shared|-pipe"
)
_NOT_THESE: Final = (
    # Load code into the compiler or name another tool.
    "-fplugin",
    "-fuse-ld",
    "-flinker",
    "-mllvm",
    # Write or read files beside the output, now or when the kernel runs.
    "-fprofile",
    "-fauto-profile",
    "-fbranch-probabilities",
    "-fdump",
    "-fsave",
    "-fcallgraph",
    "-fstack-usage",
    "-fopt-info",
    "-fdiagnostics",
    "-fmodule",
    "-fcompare-debug",
    "-fcrash",
    "-ftest-coverage",
    "-fsanitize",
    # Would make equal code differ, or are set by the build itself.
    "-frandom-seed",
    "-ffile-prefix",
    "-fsyntax-only",
    "-fpreprocessed",
)
_LINKER: Final = frozenset(
    {
        "-lm",
        "-lpthread",
        "-ldl",
        "-lrt",
        "-latomic",
        "-lgomp",
        "-lstdc++",
        "-fopenmp",
        "-pthread",
        "-s",
        "-shared",
        "-static-libgcc",
        "-static-libstdc++",
        "-Wl,--as-needed",
        "-Wl,--gc-sections",
        "-Wl,-O1",
    }
)
_FOR_A_GPU: Final = frozenset({"-lcuda", "-lcudart"})
"""The solution format names the first by default; host code has no use for them."""


class FlagRefused(ValueError):
    """A flag that is not allowed; the message says what is."""


def compiler_flags(asked: Sequence[str], source_folder: str) -> list[str]:
    """Return the flags for the compiler, include folders below `source_folder`.

    FlagRefused for a flag that could read or write anything but the sources and the output.
    """
    return [_include(flag, source_folder) or _allowed(flag) for flag in asked]


def linker_flags(asked: Sequence[str]) -> list[str]:
    """Return the flags for the linker; FlagRefused for one that is not on the list."""
    for flag in asked:
        if flag not in _LINKER | _FOR_A_GPU:
            allowed = ", ".join(sorted(_LINKER))
            raise FlagRefused(f"linker flag {flag!r} is not allowed; allowed are {allowed}")
    return [flag for flag in asked if flag not in _FOR_A_GPU]


def _include(flag: str, source_folder: str) -> str | None:
    if not flag.startswith("-I"):
        return None
    folder = PurePosixPath(flag[2:])
    plain = re.fullmatch(r"[\w./+-]+", flag[2:]) is not None
    if folder.is_absolute() or ".." in folder.parts or not plain:
        raise FlagRefused(
            f"compiler flag {flag!r} is not allowed: -I takes a folder of the solution, as in -Isrc"
        )
    return f"-I{PurePosixPath(source_folder) / folder}"


def _allowed(flag: str) -> str:
    if _COMPILER.fullmatch(flag) is None or flag.startswith(_NOT_THESE):
        raise FlagRefused(
            f"compiler flag {flag!r} is not allowed; allowed are -O, -std=, -f, -m, -W, -D, -U, -g"
            " and -I with a folder of the solution, none that reads or writes other files"
        )
    return flag
