"""What of the host a sandbox shows, read-only: the system, the interpreter, the compiler; light."""

import importlib.util
import os
import sys
from pathlib import Path
from typing import Final

from kernelarc_guard.cuda.nvcc import find_nvcc
from kernelarc_guard.faults import Refused
from kernelarc_guard.toolchain import find_toolchain

LINKS: Final = ("/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32")
"""Links into /usr, or folders on systems that keep them apart."""
_SYSTEM: Final = ("/usr", "/nix/store", "/gnu/store")
_ETC: Final = ("/etc/alternatives", "/etc/ld.so.cache")
_LIBRARIES: Final = ("torch", "numpy", "tvm_ffi", "cupti")
"""Shown with what lies beside them: each needs others, and shared libraries in folders of their own."""
_HIDDEN: Final = ("kernelarc_mcp", "kernelarc_memory")
"""Packages with problems and references in them: nothing that runs in a sandbox needs these."""


def system_paths() -> list[str]:
    """Return what every sandbox shows, each path once and none below another.

    Raises Refused where the interpreter's folder holds the home directory or everything.
    """
    wanted = [path for path in (*_SYSTEM, *LINKS, *_ETC) if os.path.exists(path)]
    for prefix in (sys.prefix, sys.base_prefix, _root_of(sys.executable)):
        wanted += [prefix, os.path.realpath(prefix)]
    own = _package("kernelarc_guard")
    wanted += [own] if own else []
    wanted += [str(Path(place).parent) for name in _LIBRARIES if (place := _package(name))]
    toolchain = find_toolchain()
    if toolchain is not None:
        wanted.append(_root_of(toolchain.compiler))
        wanted += [str(p) for p in (toolchain.include, toolchain.libraries) if p is not None]
    nvcc = find_nvcc()
    if nvcc is not None:
        wanted.append(nvcc.root)
    for path in wanted:
        refuse_home(path, "install kernelarc-mcp[guard] into a virtual environment of its own")
    return _outermost(wanted)


def refuse_home(path: str, advice: str) -> None:
    """Raise Refused, with advice, where showing a path would show the home directory or everything."""
    home = Path.home()
    if path == "/" or (home != Path("/") and home.is_relative_to(path)):
        raise Refused(f"the sandbox would show {path} to candidates, which holds {home}: {advice}")


def hidden_paths(shown: list[str]) -> list[str]:
    """Return folders below `shown` that a sandbox covers."""
    places = [place for name in _HIDDEN if (place := _package(name))]
    return [place for place in places if any(_below(place, path) for path in shown)]


def _root_of(program: str) -> str:
    """Return the installation a program belongs to: the folder above its bin."""
    return str(Path(os.path.realpath(program)).parent.parent)


def _package(name: str) -> str | None:
    spec = importlib.util.find_spec(name)
    places = list(spec.submodule_search_locations or []) if spec else []
    return places[0] if places else None


def _outermost(paths: list[str]) -> list[str]:
    kept: list[str] = []
    for path in sorted(set(paths), key=lambda one: (one.count("/"), one)):
        if not any(_below(path, outer) for outer in kept):
            kept.append(path)
    return kept


def _below(path: str, outer: str) -> bool:
    return path == outer or path.startswith(outer.rstrip("/") + "/")
