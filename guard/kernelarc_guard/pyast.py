"""Python sources as syntax trees: what the readers ask of them; light."""

import ast
import io
import threading
import tokenize
import warnings
from typing import Final, Literal

_ONE_AT_A_TIME: Final = threading.RLock()
"""Python 3.11 may fail with a SystemError where two threads make syntax trees at once; and what is
said of warnings is said for the whole process."""


class NotPython(ValueError):
    """A source that does not parse: `line` from 1, and what is wrong with it."""

    def __init__(self, line: int, message: str) -> None:
        """Keep both beside the message of one line."""
        super().__init__(f"not valid Python: line {line}: {message}")
        self.line = line
        self.message = message


def tree_of(source: str | bytes, mode: Literal["exec", "eval"] = "exec") -> ast.AST:
    """Parse as `ast.parse` does, in one thread at a time; raises what it raises."""
    with _ONE_AT_A_TIME:
        return ast.parse(source, mode=mode)


def parse(source: str) -> ast.Module:
    """Parse the text of a Python file as the interpreter reads that file in UTF-8.

    That is not always what the text says: its first lines may declare an encoding. Raises NotPython.
    """
    try:
        with _ONE_AT_A_TIME, warnings.catch_warnings():
            # A dubious escape in somebody's string is not our caller's business.
            warnings.simplefilter("ignore")
            tree = tree_of(source.encode())
            assert isinstance(tree, ast.Module)
            return tree
    except SyntaxError as error:
        raise NotPython(error.lineno or 1, error.msg) from None
    except (ValueError, LookupError, RecursionError, MemoryError) as error:
        raise NotPython(1, f"{type(error).__name__}: {error}") from None


def as_read(source: str) -> str:
    """Return the text the interpreter makes of a file in UTF-8 with this text; NotPython if none."""
    data = source.encode()
    try:
        encoding, _ = tokenize.detect_encoding(io.BytesIO(data).readline)
        if encoding.startswith("utf-8"):
            return source
        with _ONE_AT_A_TIME, warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return data.decode(encoding)
    except (SyntaxError, UnicodeError, LookupError) as error:
        raise NotPython(1, str(error)) from None


def functions(tree: ast.Module) -> dict[str, ast.FunctionDef]:
    """Return the functions defined at the top level."""
    return {node.name: node for node in tree.body if isinstance(node, ast.FunctionDef)}


def positional(function: ast.FunctionDef) -> list[str]:
    """Return the names of the positional parameters."""
    return [argument.arg for argument in (*function.args.posonlyargs, *function.args.args)]


def takes_exactly(function: ast.FunctionDef, count: int) -> bool:
    """Say whether a call with `count` positional arguments is the only positional one accepted."""
    arguments = function.args
    return (
        len(positional(function)) == count
        and arguments.vararg is None
        and not arguments.defaults
        and all(default is not None for default in arguments.kw_defaults)
    )


def written_parameters(function: ast.FunctionDef) -> list[str]:
    """Return the parameters that a function writes to in place, as its text shows.

    An assignment to an element or with an operator, or a method of torch that ends in an underscore.
    """
    written: set[str] = set()
    for node in ast.walk(function):
        targets: list[ast.expr] = []
        if isinstance(node, ast.Assign):
            targets = [one for one in node.targets if isinstance(one, ast.Subscript)]
        elif isinstance(node, ast.AugAssign):
            targets = [node.target]
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            method = node.func.attr
            if method.endswith("_") and not method.startswith("_") and method != "requires_grad_":
                targets = [node.func.value]
        for target in targets:
            base = target
            while isinstance(base, ast.Subscript | ast.Attribute):
                base = base.value
            if isinstance(base, ast.Name):
                written.add(base.id)
    rebound = {
        target.id
        for node in ast.walk(function)
        if isinstance(node, ast.Assign)
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    return [one for one in positional(function) if one in written and one not in rebound]
