"""Python sources as syntax trees: what the readers ask of them; light."""

import ast
import warnings


def parse(source: str) -> ast.Module:
    """Parse Python source; ValueError in one line where it does not parse."""
    try:
        with warnings.catch_warnings():
            # A dubious escape in somebody's string is not our caller's business.
            warnings.simplefilter("ignore")
            return ast.parse(source)
    except SyntaxError as error:
        raise ValueError(f"not valid Python: line {error.lineno}: {error.msg}") from None
    except (ValueError, RecursionError, MemoryError) as error:
        raise ValueError(f"not valid Python: {type(error).__name__}: {error}") from None


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
