"""Modules that hold an operator: finding them, and their text as a reference of its own."""

import ast
import importlib
import importlib.util
import inspect
import io
import sys
import sysconfig
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from kernelarc_guard import pyast
from kernelarc_guard.reference import FAILURES
from kernelarc_guard.textfile import read_text


class NotUsable(ValueError):
    """Code that no problem can be made of; one line that says why."""


@dataclass(frozen=True)
class Found:
    """A module that was imported, and what of it was asked for."""

    module: ModuleType
    name: str
    """The function or class; empty where only the module was named."""
    text: str | None
    """The file's text; None for a module that is installed and can be imported anywhere."""

    @property
    def label(self) -> str:
        """Return what a problem made of it is called."""
        stem = Path(self.module.__file__ or self.module.__name__).stem
        own = self.name if self.name not in ("", "Model", "run") else stem
        return own or self.module.__name__

    def get(self, name: str) -> Any:
        """Return a member of the module; NotUsable where there is none."""
        value = getattr(self.module, name, None)
        if value is None:
            where = self.module.__file__ or self.module.__name__
            raise NotUsable(f"{where} has no {name!r}; {self._offer()}")
        return value

    def _offer(self) -> str:
        """Say which functions there are; of an installed module, which may have thousands, nothing."""
        if self.text is None:
            return "expected the name of a function of that module"
        names = [name for name in pyast.functions(pyast.parse(self.text)) if name[0] != "_"]
        return f"its functions are {', '.join(names)}" if names else "it has no functions"


def find(source: str, place: Path) -> Found:
    """Import `module:name`, `file.py:name` or either without a name; NotUsable says what is wrong.

    Files and modules are looked for in `place` first.
    """
    where, _, name = source.partition(":")
    if name and not name.isidentifier():
        raise NotUsable(f"--from {source}: {name!r} is not the name of a function")
    if str(place) not in sys.path:
        sys.path.insert(0, str(place))
    if where.endswith(".py"):
        return _from_file((place / where).resolve(), name, source)
    try:
        module = importlib.import_module(where)
    except (*FAILURES, SyntaxError) as error:
        raise NotUsable(f"--from {source}: module {where!r} cannot be imported: {error}") from None
    if _installed(module):
        return Found(module, name, None)
    return Found(module, name, _text(Path(str(module.__file__)), source))


def _from_file(path: Path, name: str, source: str) -> Found:
    text = _text(path, source)
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None:
        raise NotUsable(f"--from {source}: {path} cannot be imported")
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    try:
        spec.loader.exec_module(module)
    except (*FAILURES, SyntaxError) as error:
        raise NotUsable(
            f"--from {source}: raised {type(error).__name__} when it was imported: {error}"
        ) from None
    return Found(module, name, text)


def _text(path: Path, source: str) -> str:
    try:
        text = read_text(path)
        tree = pyast.parse(text)
    except ValueError as error:
        raise NotUsable(f"--from {source}: {error}") from None
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.level:
            raise NotUsable(
                f"--from {source}: line {node.lineno} imports from its own package; expected a file that "
                "stands alone, for the reference is judged without the others"
            )
    return text


def _installed(module: ModuleType) -> bool:
    """Say whether every interpreter of this environment can import a module."""
    file = getattr(module, "__file__", None)
    if file is None:
        return True
    paths = sysconfig.get_paths()
    roots = [Path(paths[key]).resolve() for key in ("purelib", "platlib", "stdlib")]
    return any(Path(file).resolve().is_relative_to(root) for root in roots)


def parameters(function: Any) -> list[inspect.Parameter] | None:
    """Return a function's parameters, None where it does not tell (many of torch's own)."""
    try:
        found = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):
        return None
    kinds = {one.kind for one in found}
    if kinds & {inspect.Parameter.VAR_POSITIONAL}:
        return None
    return [one for one in found if one.kind is not inspect.Parameter.VAR_KEYWORD]


def replaced(text: str, settings: dict[str, Any]) -> str:
    """Return a module's text with literals assigned at its top level replaced; NotUsable if none is."""
    # Lines as Python counts them: a form feed ends none.
    lines = io.StringIO(text, newline="").readlines()
    places = _assigned(pyast.parse(text).body)
    known = [name for name, value in places.items() if _is_literal(value)]
    for name in settings:
        if name not in known:
            raise NotUsable(
                f"--set {name}: is no constant of the module; expected one of {', '.join(known)}"
            )
    # From the end on, so that earlier places stay where they are.
    order = sorted(settings, key=lambda one: (places[one].lineno, places[one].col_offset))
    for name in reversed(order):
        value = places[name]
        if value.end_lineno != value.lineno:
            raise NotUsable(f"--set {name}: its value takes more than one line")
        line = lines[value.lineno - 1].encode()
        begin, end = value.col_offset, value.end_col_offset
        text_of = repr(settings[name]).encode()
        lines[value.lineno - 1] = (line[:begin] + text_of + line[end:]).decode()
    return "".join(lines)


def _assigned(body: list[ast.stmt]) -> dict[str, ast.expr]:
    """Return what is assigned to each name: `a = 1`, `a: int = 1`, and each of `a, b = 1, 2`."""
    places: dict[str, ast.expr] = {}
    for node in body:
        if isinstance(node, ast.Assign) and len(node.targets) == 1:
            pairs = _pairs(node.targets[0], node.value)
        elif isinstance(node, ast.AnnAssign) and node.value is not None:
            pairs = [(node.target, node.value)]
        else:
            continue
        places |= {target.id: value for target, value in pairs if isinstance(target, ast.Name)}
    return places


def _pairs(target: ast.expr, value: ast.expr) -> list[tuple[ast.expr, ast.expr]]:
    both = (ast.Tuple, ast.List)
    if not isinstance(target, both):
        return [(target, value)]
    starred = any(isinstance(one, ast.Starred) for one in target.elts)
    if not isinstance(value, both) or starred or len(value.elts) != len(target.elts):
        return []
    return list(zip(target.elts, value.elts, strict=True))


def _is_literal(value: ast.expr) -> bool:
    """Say whether a value is written down: numbers, texts, sums of them, and any tuple or list."""
    written = (
        ast.Constant,
        ast.UnaryOp,
        ast.BinOp,
        ast.operator,
        ast.unaryop,
    )
    whole = isinstance(value, ast.Tuple | ast.List)
    return whole or all(isinstance(node, written) for node in ast.walk(value))
