"""What the rules of the Python policy look for in a source's names; light."""

import ast
import re
from collections.abc import Iterator
from typing import Final

from kernelarc_guard.pynames import Names, constant_text

_PATCHED: Final = frozenset(
    ["torch", "time", "builtins", "numpy", "math", "statistics", "__main__"]
)
CLOCK_FLAGS: Final = re.compile(
    r"(?:^|\s)(-lgc|-rgc|-lmc|-rmc|-ac|-rac|-pl|-pm|-r|--lock-\w+-clocks|--reset-\w+-clocks"
    r"|--applications-clocks|--reset-applications-clocks|--power-limit|--persistence-mode"
    r"|--gpu-reset)(?:[=,\s]|$)"
)
"""Options of nvidia-smi that set something."""
_SETTINGS: Final = frozenset({"backends", "config"})
SETTERS: Final = frozenset(
    {"builtins.setattr", "builtins.object.__setattr__", "builtins.type.__setattr__"}
)


def is_setting(name: str) -> bool:
    """Say whether the name is a switch that its module offers for setting."""
    return not _SETTINGS.isdisjoint(name.split(".")[:-1])


def written(names: Names) -> Iterator[tuple[int, str]]:
    """Yield line and name of everything in a shared module that is assigned, set or deleted."""
    for node in names.nodes:
        if isinstance(node, ast.Attribute | ast.Subscript) and not isinstance(node.ctx, ast.Load):
            name = names.dotted(node)
            if name is not None and _is_shared(name):
                yield node.lineno, name
    for call, function in names.calls():
        owner = None
        if function in SETTERS or function == "builtins.delattr":
            owner = names.dotted(call.args[0]) if call.args else None
        elif function.endswith((".__dict__.update", ".__dict__.__setitem__", ".__setattr__")):
            owner = function.partition(".__")[0]
        if owner is not None and _is_shared(owner):
            attribute = constant_text(call.args[1]) if len(call.args) > 1 else None
            yield call.lineno, f"{owner}.{attribute or '*'}"


def _is_shared(name: str) -> bool:
    return name.partition(".")[0] in _PATCHED


def native(names: Names, wanted: frozenset[str]) -> Iterator[tuple[int, str]]:
    """Yield line and name of the C functions among those wanted, where C can be called at all."""
    roots = {name.partition(".")[0] for _, name in names.imports}
    if roots.isdisjoint({"ctypes", "cffi", "_ctypes"}):
        return
    for line, name in names.attributes():
        if name in wanted:
            yield line, name
    for node in names.nodes:
        if isinstance(node, ast.Subscript):
            key = constant_text(node.slice)
            if key in wanted:
                yield node.lineno, str(key)


def nvidia_smi(names: Names) -> Iterator[tuple[int, str]]:
    """Yield line and joined strings of every call that names nvidia-smi."""
    for call in names.nodes:
        if isinstance(call, ast.Call):
            parts = [
                constant_text(node) or "*"
                for argument in call.args
                for node in (argument.elts if isinstance(argument, ast.List) else [argument])
            ]
            if parts and "nvidia-smi" in parts[0]:
                yield call.lineno, " ".join(parts)
