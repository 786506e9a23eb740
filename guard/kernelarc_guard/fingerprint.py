"""What two solutions have in common as text: digests and similarity without formatting; light."""

import ast
import hashlib
import io
import re
import tokenize
from collections.abc import Iterable, Sequence
from pathlib import PurePosixPath
from typing import Final

from kernelarc_guard import pyast
from kernelarc_guard.solution_model import Solution, SourceFile

SHINGLE: Final = 5
"""Tokens in one shingle."""
_LAYOUT: Final = frozenset({tokenize.COMMENT, tokenize.NL, tokenize.ENCODING, tokenize.ENDMARKER})
_STATEMENT_ENDS: Final = frozenset({"", "\n", "<indent>", "<dedent>", ";", ":"})
_C_TOKEN: Final = re.compile(
    r"""
      (?P<comment>//[^\n]*|/\*.*?(?:\*/|\Z))
    | (?P<token>(?:u8|[uUL])?R"(?P<delimiter>[^()\\\s]{0,16})\(.*?\)(?P=delimiter)"
      | (?:u8|[uUL])?"(?:\\.|[^"\\\n])*"
      | '(?:\\.|[^'\\\n])*'
      | [A-Za-z_]\w*
      | \.?\d(?:[\w.']|[eEpP][+-])*
      | \S)
    | (?P<newline>\n)
    | (?P<space>\s+?)
    """,
    re.VERBOSE | re.DOTALL,
)


def tokens(file: SourceFile) -> list[str]:
    """Return a file's tokens without comments, docstrings, blank lines and formatting.

    A Python file that does not parse is read like C++: any text has tokens.
    """
    if PurePosixPath(file.path).suffix == ".py":
        try:
            return _python_tokens(file.content)
        except (tokenize.TokenError, SyntaxError, ValueError):
            return _c_tokens(file.content)
    return _c_tokens(file.content)


def normalised_digest(files: Iterable[SourceFile]) -> str:
    """Return a SHA-256, in hex, that formatting, comments, file names and order do not change."""
    digests = sorted(
        hashlib.sha256("\0".join(tokens(file)).encode("utf-8", "surrogatepass")).hexdigest()
        for file in files
    )
    return hashlib.sha256("\n".join(digests).encode()).hexdigest()


def shingle_similarity(a: Iterable[SourceFile], b: Iterable[SourceFile]) -> float:
    """Return the Jaccard similarity, 0 to 1, of the two texts' shingles of five tokens."""
    left, right = _shingles(a), _shingles(b)
    union = len(left | right)
    return len(left & right) / union if union else 1.0


def dsl_of(solution: Solution) -> str:
    """Return the most special thing the sources are written in.

    `cuda`, `cpp`, `triton`, `cute_dsl`, `cutile`, `tilelang`, `helion`, `numba`, `cupy`,
    `cpp_extension` (C++ inside Python), `torch`, `numpy` or `python`.
    """
    if solution.is_native:
        is_cuda = any(
            source.path.endswith((".cu", ".cuh")) or "__global__" in tokens(source)
            for source in solution.sources
        )
        return "cuda" if is_cuda else "cpp"
    imported = set().union(*(_imports(source) for source in solution.sources))
    return next((dsl for module, dsl in _DSLS if module in imported), "python")


_DSLS: Final = (
    ("triton", "triton"),
    ("cutlass", "cute_dsl"),
    ("cuda.tile", "cutile"),
    ("tilelang", "tilelang"),
    ("helion", "helion"),
    ("numba", "numba"),
    ("cupy", "cupy"),
    ("torch.utils.cpp_extension", "cpp_extension"),
    ("tvm_ffi", "cpp_extension"),
    ("ctypes", "cpp_extension"),
    ("cffi", "cpp_extension"),
    ("torch", "torch"),
    ("numpy", "numpy"),
)


def _shingles(files: Iterable[SourceFile]) -> set[tuple[str, ...]]:
    return {shingle for file in files for shingle in _windows(tokens(file))}


def _windows(stream: Sequence[str]) -> list[tuple[str, ...]]:
    if not stream:
        return []
    last = max(len(stream) - SHINGLE, 0)
    return [tuple(stream[start : start + SHINGLE]) for start in range(last + 1)]


def _python_tokens(source: str) -> list[str]:
    pyast.parse(source)
    result: list[str] = []
    depth = 0
    for token in tokenize.generate_tokens(io.StringIO(pyast.as_read(source)).readline):
        if token.type in _LAYOUT:
            continue
        text = _python_text(token)
        depth += (text in ("(", "[", "{")) - (text in (")", "]", "}"))
        if text == "\n" and depth == 0 and _is_bare_string(result):
            # A docstring, or any other string that is a whole statement.
            result.pop()
        elif not (text == "\n" and (not result or result[-1] in ("\n", "<indent>"))):
            result.append(text)
    return result


def _python_text(token: tokenize.TokenInfo) -> str:
    if token.type == tokenize.NEWLINE:
        return "\n"
    if token.type in (tokenize.INDENT, tokenize.DEDENT):
        return "<indent>" if token.type == tokenize.INDENT else "<dedent>"
    if token.type == tokenize.STRING and token.string[0] in "\"'rRbBuU":
        try:
            return "<string>" + repr(ast.literal_eval(token.string))
        except (SyntaxError, ValueError):
            # An f-string of Python 3.11 comes as one token; its text stands for it.
            return token.string
    return token.string


def _is_bare_string(result: Sequence[str]) -> bool:
    if not result or not result[-1].startswith("<string>"):
        return False
    return (result[-2] if len(result) > 1 else "") in _STATEMENT_ENDS


def _c_tokens(source: str) -> list[str]:
    result: list[str] = []
    directive = False
    for match in _C_TOKEN.finditer(source.replace("\\\r\n", "").replace("\\\n", "")):
        if match["newline"]:
            # The end of a line means something only after a preprocessor directive.
            if directive:
                result.append("\n")
            directive = False
        elif match["token"]:
            directive = directive or match["token"] == "#"
            result.append(match["token"])
    return result


def _imports(file: SourceFile) -> set[str]:
    if not file.path.endswith(".py"):
        return set()
    try:
        tree = pyast.parse(file.content)
    except ValueError:
        return set()
    named: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            named.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            named.add(node.module)
            named.update(f"{node.module}.{alias.name}" for alias in node.names)
    parents = {name.rsplit(".", cut)[0] for name in named for cut in range(name.count(".") + 1)}
    return named | parents
