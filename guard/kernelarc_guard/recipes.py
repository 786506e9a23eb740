"""How a native solution is compiled: the command for its device and binding; light."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from kernelarc_guard.compile_flags import DEFAULT, FlagRefused, compiler_flags, linker_flags
from kernelarc_guard.compiler_messages import read_messages
from kernelarc_guard.cuda.nvcc import LANGUAGES as CUDA_LANGUAGES
from kernelarc_guard.cuda.nvcc import find_nvcc, nvcc_flags, read_nvcc
from kernelarc_guard.protocol import BuildMessage
from kernelarc_guard.solution import NATIVE_SUFFIXES, Solution
from kernelarc_guard.toolchain import EXTENSION, Toolchain, find_toolchain, find_torch

SOURCES: Final = "src"
BINARY: Final = "kernel.so"
LOOP: Final = Path(__file__).with_name("native_loop.cpp")
"""Part of every solution with the light C binding on a CPU."""


class BuildFailed(Exception):
    """A solution that could not be built, and what the compiler said."""

    def __init__(
        self,
        reason: Literal["build_failed", "timeout"],
        detail: str,
        messages: Sequence[BuildMessage] = (),
    ) -> None:
        """Keep the reason code, one sentence and the structured messages."""
        super().__init__(detail)
        self.reason: Literal["build_failed", "timeout"] = reason
        self.detail = detail
        self.messages = list(messages)


class BuildHeld(BuildFailed):
    """Another process has had the entry's lock for longer than any build takes."""


@dataclass(frozen=True)
class Recipe:
    """How one solution is compiled."""

    command: list[str]
    """Paths of the solution are relative to the work folder."""
    identity: str
    """Of the compilers and all else that decides what comes out, beside command and sources."""
    prefix_map: str
    """The flag that keeps the work folder's name out of the binary."""
    read: Callable[[str, str, str], list[BuildMessage]]
    """Output, source folder, entry file -> messages."""
    loop: bool = False
    """Is the native loop compiled along?"""


def host_recipe(solution: Solution) -> Recipe:
    """Return how C++ for this machine's processor is compiled; raises BuildFailed."""
    toolchain = find_toolchain()
    if toolchain is None:
        raise _failed("no C++ compiler (c++, g++ or clang++) is installed on this machine")
    command = [toolchain.compiler, *_host_flags(solution, toolchain)]
    loop = solution.binding == "dlpack"
    return Recipe(command, toolchain.identity, "-ffile-prefix-map", read_messages, loop)


def gpu_recipe(solution: Solution, arch: str) -> Recipe:
    """Return how CUDA C++ is compiled for one architecture, as in ``90a``; raises BuildFailed."""
    spec, nvcc, toolchain = solution.spec, find_nvcc(), find_toolchain()
    if not set(spec.languages) <= CUDA_LANGUAGES:
        raise _failed(f"languages {spec.languages}: only cuda can be built for a GPU")
    if nvcc is None or toolchain is None:
        raise _failed("nvcc and a C++ compiler are not installed here")
    asked = spec.compile_options
    try:
        flags = nvcc_flags(
            asked.cuda_cflags if asked else [], asked.cflags if asked else [], SOURCES, arch
        )
        linked = linker_flags(asked.ld_flags if asked else [])
    except FlagRefused as refused:
        raise _failed(str(refused)) from None
    bound, libraries, packages = _bound(solution, toolchain)
    command = [nvcc.program, *flags, *bound, *_units(solution), "-o", BINARY, *linked, *libraries]
    # A host without this GPU, and with another processor, builds the same: unless a flag asks for that.
    native = any("native" in flag for flag in command)
    host = toolchain.identity if native else toolchain.anywhere
    identity = "\n".join([nvcc.identity, host, packages])
    return Recipe(command, identity, "-Xcompiler=-ffile-prefix-map", read_nvcc)


def _bound(solution: Solution, toolchain: Toolchain) -> tuple[list[str], list[str], str]:
    """Return what a binding adds: flags, what is linked, and what else than compilers decides what comes out."""
    if solution.binding == "torch":
        torch = find_torch()
        if torch is None:
            raise _failed("the binding torch needs torch and Python's headers, which are not here")
        flags = [f"-DTORCH_EXTENSION_NAME={EXTENSION}", "-DTORCH_API_INCLUDE_EXTENSION_H"]
        # Headers of others: what is odd in them is not the solution's to repair.
        flags += [word for path in torch.includes for word in ("-isystem", f"{path}")]
        # No run path: whoever loads the extension has loaded these libraries before.
        names = ["c10", "torch", "torch_cpu", "torch_python", "c10_cuda", "torch_cuda"]
        linked = [f"-L{torch.libraries}", *(f"-l{name}" for name in names)]
        return flags, linked, torch.identity
    flags = [] if toolchain.include is None else ["-isystem", f"{toolchain.include}"]
    if solution.binding != "tvm-ffi":
        return flags, [], ""
    if toolchain.include is None:
        raise _failed("the binding tvm-ffi is not installed on this machine")
    return flags, [f"-L{toolchain.libraries}", "-ltvm_ffi"], ""


def _host_flags(solution: Solution, toolchain: Toolchain) -> list[str]:
    """Return the compiler's arguments; paths of the solution are relative to the work folder."""
    spec = solution.spec
    if spec.languages != ["cpp"]:
        raise _failed(f"languages {spec.languages}: only cpp can be built for this device")
    if solution.binding not in {"tvm-ffi", "dlpack"}:
        raise _failed(f"binding {solution.binding!r}: expected 'tvm-ffi' or 'dlpack'")
    asked = spec.compile_options
    try:
        own = compiler_flags(asked.cflags if asked else [], SOURCES)
        linked = linker_flags(asked.ld_flags if asked else [])
    except FlagRefused as refused:
        raise _failed(str(refused)) from None
    # The solution's flags come last and win.
    flags = [*DEFAULT, *own, "-shared", "-fPIC", f"-I{SOURCES}"]
    # Nothing that differs between two builds of the same code may get into the binary.
    flags += ["-s", "-frandom-seed=0", "-Wl,--build-id=none"]
    flags += ["-fno-diagnostics-show-caret", "-fdiagnostics-color=never"]
    flags += ["-ferror-limit=20"] if toolchain.is_clang else ["-fmax-errors=20"]
    if toolchain.include is not None:
        flags += [
            f"-ffile-prefix-map={toolchain.include}=tvm-ffi",
            "-isystem",
            f"{toolchain.include}",
        ]
    elif solution.binding == "tvm-ffi":
        raise _failed("the binding tvm-ffi is not installed on this machine")
    flags += ["-x", "c++", *_units(solution)]
    flags += [LOOP.name] if solution.binding == "dlpack" else []
    flags += ["-x", "none", "-o", BINARY, "-Wl,--no-undefined", *linked, "-lm"]
    if solution.binding == "tvm-ffi":
        # No run path: whoever loads the kernel has loaded this library before.
        flags += [f"-L{toolchain.libraries}", "-ltvm_ffi"]
    return flags


def _units(solution: Solution) -> list[str]:
    """Return the files that are compiled."""
    units = [s.path for s in solution.sources if Path(s.path).suffix in NATIVE_SUFFIXES]
    return [f"{SOURCES}/{path}" for path in sorted({*units, solution.entry_file})]


def _failed(detail: str) -> BuildFailed:
    return BuildFailed("build_failed", detail)
