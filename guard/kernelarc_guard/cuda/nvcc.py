"""How CUDA C++ is compiled: the compiler, the flags a solution may ask for, and what it prints; light."""

import os
import re
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Final, Literal

from kernelarc_guard.compile_flags import FlagRefused, compiler_flags
from kernelarc_guard.compiler_messages import MOST, read_messages
from kernelarc_guard.protocol import BuildMessage

LANGUAGES: Final = frozenset({"cuda", "cuda_cpp"})

_OWN: Final = re.compile(
    r"-O[0-3]|--?use_fast_math|--?fmad=(?:true|false)|--?ftz=(?:true|false)"
    r"|--?prec-(?:div|sqrt)=(?:true|false)|--?expt-(?:relaxed-constexpr|extended-lambda)"
    r"|--?extended-lambda|--?maxrregcount=\d{1,3}|--?lineinfo|-lineinfo|--?restrict"
    r"|--?default-stream=legacy|--?std=c\+\+\d\d|-w|-D[A-Za-z_]\w*(?:=[\w.+-]*)?|-U[A-Za-z_]\w*"
    r"|-Xptxas=-(?:O[0-3]|v|dlcm=\w+)|--ptxas-options=-(?:O[0-3]|v|dlcm=\w+)"
)
_AT_LINE: Final = re.compile(
    r"(?P<file>[^\s(][^(\n]*)\((?P<line>\d+)\): (?P<severity>error|warning)(?: #\S+)?: (?P<message>.+)"
)
_AT_END: Final = re.compile(r"At end of source: error(?: #\S+)?: (?P<message>.+)")
_ENTRY: Final = re.compile(r"ptxas info\s*: Compiling entry function '(?P<name>\w+)' for '\w+'")
_SPILLS: Final = re.compile(
    r"(?P<stack>\d+) bytes stack frame, (?P<stores>\d+) bytes spill stores, "
    r"(?P<loads>\d+) bytes spill loads"
)
_USED: Final = re.compile(r"ptxas info\s*: Used (?P<used>.+)")
_PTXAS: Final = re.compile(r"ptxas (?P<severity>error|fatal|warning)\s*: (?P<message>.+)")


@dataclass(frozen=True)
class Nvcc:
    """NVIDIA's compiler on this machine."""

    program: str
    root: str
    """The toolkit it belongs to."""
    identity: str


@lru_cache(maxsize=1)
def find_nvcc() -> Nvcc | None:
    """Return this machine's compiler, or None where there is none."""
    homes = [os.environ.get("CUDA_HOME"), os.environ.get("CUDA_PATH"), "/usr/local/cuda"]
    places = [shutil.which("nvcc"), *(f"{home}/bin/nvcc" for home in homes if home)]
    program = next((one for one in places if one and os.access(one, os.X_OK)), None)
    if program is None:
        return None
    real = os.path.realpath(program)
    told = subprocess.run(
        [real, "--version"], capture_output=True, text=True, timeout=60, check=True
    ).stdout
    return Nvcc(real, str(Path(real).parent.parent), f"{real}\n{told}")


def nvcc_flags(asked: Sequence[str], host: Sequence[str], folder: str, arch: str) -> list[str]:
    """Return the flags for a shared object for one architecture, as in ``90a``.

    `asked` are the solution's own flags, `host` those for the host's compiler. FlagRefused for one
    that is not allowed.
    """
    flags = [f"-gencode=arch=compute_{arch},code=sm_{arch}", "-std=c++17", "-O3"]
    for flag in asked:
        if flag.startswith("-I"):
            flags += compiler_flags([flag], folder)
        elif _OWN.fullmatch(flag) is None:
            raise FlagRefused(
                f"nvcc flag {flag!r} is not allowed; allowed are -O, -std=, -D, -U, --use_fast_math, "
                "--fmad=, --ftz=, --prec-div=, --prec-sqrt=, --maxrregcount=, -lineinfo, "
                "--expt-relaxed-constexpr, --extended-lambda, -Xptxas=-O/-dlcm and -I with a folder "
                "of the solution; the architecture is the device's"
            )
        else:
            flags.append(flag)
    flags += [f"-Xcompiler={flag}" for flag in compiler_flags(host, folder)]
    flags += ["-Xptxas=-v", "-shared", "-Xcompiler=-fPIC", f"-I{folder}"]
    return [*flags, "-Xcompiler=-frandom-seed=0", "-Xlinker=--build-id=none"]


def read_nvcc(output: str, folder: str, entry_file: str) -> list[BuildMessage]:
    """Return errors, what each kernel uses, then warnings; line 0 where no line is named."""
    found: dict[BuildMessage, None] = {}
    kernel, spills = "", ""
    for line in map(str.strip, output.splitlines()):
        if match := _AT_LINE.fullmatch(line):
            file = match["file"].removeprefix(f"{folder}/")
            kind: Literal["error", "warning"] = (
                "error" if match["severity"] == "error" else "warning"
            )
            found[_message(file, int(match["line"]), kind, match["message"])] = None
        elif match := _PTXAS.fullmatch(line):
            kind = "warning" if match["severity"] == "warning" else "error"
            found[_message(entry_file, 0, kind, f"ptxas: {match['message']}")] = None
        elif match := _AT_END.fullmatch(line):
            found[_message(entry_file, 0, "error", f"at the end: {match['message']}")] = None
        elif match := _ENTRY.fullmatch(line):
            kernel, spills = plain_name(match["name"]), ""
        elif match := _SPILLS.fullmatch(line):
            spills = (
                f"{match['stack']} bytes of stack, spills {match['stores']} bytes stored and "
                f"{match['loads']} loaded"
            )
        elif (match := _USED.fullmatch(line)) and kernel:
            text = f"{kernel}: {match['used']}; {spills}"
            found[_message(entry_file, 0, "info", text)] = None
        else:
            # The host's compiler and the linker speak through it too.
            found |= dict.fromkeys(read_messages(line, folder, entry_file))
    rank = {"error": 0, "info": 1, "warning": 2}
    return sorted(found, key=lambda message: rank[message.severity])[:MOST]


def plain_name(symbol: str) -> str:
    """Return a kernel's name with its namespaces, from the symbol that its compiler gave it."""
    mangled = re.match(r"_ZN?", symbol)
    rest = symbol[mangled.end() :] if mangled else ""
    parts: list[str] = []
    while length := re.match(r"\d+", rest):
        end = length.end() + int(length[0])
        parts.append(rest[length.end() : end])
        rest = rest[end:]
    kept = [part for part in parts if not part.startswith("_GLOBAL__N_")]
    # Only the first name is the kernel's, outside of namespaces: then come its parameters.
    kept = kept if symbol.startswith("_ZN") else kept[:1]
    return "::".join(kept) or symbol


def _message(
    file: str, line: int, kind: Literal["error", "warning", "info"], text: str
) -> BuildMessage:
    return BuildMessage(file=file, line=line, severity=kind, message=text[:1000])
