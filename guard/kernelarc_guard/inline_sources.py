"""C++ and CUDA inside Python: the literal texts that are handed to a compiler; light.

Follows names, lists, concatenation and the usual methods of strings. What is computed otherwise
stays unknown: it is the isolation's business, not ours.
"""

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from kernelarc_guard.pynames import Names, constant_text

_COMPILERS: Final = frozenset(
    [
        "load_inline",
        "build_inline",
        "RawKernel",
        "RawModule",
        "SourceModule",
        "compile_kernel",
        "_compile_kernel",
        "nvrtcCreateProgram",
        "Program",
        "set_source",
    ]
)
"""Last names of the functions that take a source: torch, tvm_ffi, cupy, pycuda, NVRTC, cffi."""
_METHODS: Final = frozenset(
    [
        "format",
        "replace",
        "encode",
        "strip",
        "lstrip",
        "rstrip",
        "dedent",
        "Template",
        "substitute",
        "safe_substitute",
        "join",
        "bytes",
        "str",
        "cleandoc",
    ]
)
_MOST: Final = 2000


@dataclass(frozen=True)
class InlineSource:
    """A text that some compiler gets."""

    line: int
    """The line of the Python file its first line is on."""
    text: str


def inline_sources(names: Names) -> list[InlineSource]:
    """Return the texts of a Python source that it hands to a compiler, each once, by line."""
    found: dict[InlineSource, None] = {}
    for node in names.nodes:
        if isinstance(node, ast.Call) and _last_name(names, node.func) in _COMPILERS:
            given = [*node.args, *(keyword.value for keyword in node.keywords)]
            for one in _texts(names, given):
                # Without a bracket it calls nothing: a name, a flag.
                if "(" in one.text:
                    found[one] = None
    return sorted(found, key=lambda one: one.line)


def _last_name(names: Names, function: ast.expr) -> str:
    name = names.dotted(function)
    if name is not None:
        return name.rpartition(".")[2]
    if isinstance(function, ast.Attribute):
        return function.attr
    return function.id if isinstance(function, ast.Name) else ""


def _texts(names: Names, given: list[ast.expr]) -> Iterator[InlineSource]:
    """Yield the string literals that expressions are made of; joined ones as one text."""
    pending, seen = list(reversed(given)), set[ast.expr]()
    while pending and len(seen) < _MOST:
        node = pending.pop()
        if node in seen:
            continue
        seen.add(node)
        joined = _joined(node)
        if joined is not None:
            yield InlineSource(node.lineno, joined)
        elif isinstance(node, ast.Name):
            pending.extend(names.values(node))
        else:
            pending.extend(reversed(_parts(node)))


def _parts(node: ast.expr) -> list[ast.expr]:
    """Return the expressions a text may come from."""
    if isinstance(node, ast.List | ast.Tuple | ast.Set):
        return list(node.elts)
    if isinstance(node, ast.Dict):
        return list(node.values)
    if isinstance(node, ast.BinOp):
        return [node.left, node.right]
    if isinstance(node, ast.IfExp):
        return [node.body, node.orelse]
    if isinstance(node, ast.Starred | ast.NamedExpr | ast.Subscript):
        return [node.value]
    if isinstance(node, ast.Call) and _is_text_method(node.func):
        owner = [node.func.value] if isinstance(node.func, ast.Attribute) else []
        return [*owner, *node.args, *(keyword.value for keyword in node.keywords)]
    return []


def _is_text_method(function: ast.expr) -> bool:
    if isinstance(function, ast.Attribute):
        return function.attr in _METHODS
    return isinstance(function, ast.Name) and function.id in _METHODS


def _joined(node: ast.expr) -> str | None:
    """Return a literal's text, also of literals that are added; None for everything else."""
    parts: list[str] = []
    pending = [node]
    while pending:
        one = pending.pop()
        if isinstance(one, ast.BinOp) and isinstance(one.op, ast.Add):
            pending += [one.right, one.left]
            continue
        if isinstance(one, ast.Constant) and isinstance(one.value, bytes):
            text: str | None = one.value.decode("utf-8", "replace")
        else:
            text = constant_text(one)
        if text is None:
            return None
        parts.append(text)
    return "".join(parts)
