"""What the names of a Python source stand for, as far as its text says so.

Follows imports, simple aliases, constant `getattr` and scopes. Computed names stay unknown: a
source that hides what it does is the isolation's business, not ours.
"""

import ast
import builtins
from collections.abc import Iterator
from dataclasses import dataclass, field

_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
_DEEPEST_ALIAS = 20
_MOST_PARTS = 40
_LONGEST = 400
"""Longer chains and names mean nothing to any rule, and would take for ever or all memory."""


@dataclass(eq=False)
class Scope:
    """The names one module, function, class or comprehension binds."""

    outer: "Scope | None"
    is_class: bool = False
    imported: dict[str, str] = field(default_factory=dict)
    assigned: dict[str, list[ast.expr | None]] = field(default_factory=dict)
    """Name -> the expressions it is bound to; None where it is bound in any other way."""
    not_local: set[str] = field(default_factory=set)

    def bind(self, name: str, value: ast.expr | None) -> None:
        """Note that the name is bound here."""
        self.assigned.setdefault(name, []).append(value)

    def binds(self, name: str) -> bool:
        """Say whether the name belongs to this scope."""
        return name not in self.not_local and (name in self.imported or name in self.assigned)


class Names:
    """The names of one parsed source.

    Works with a stack of its own: generated kernels nest deeper than Python recurses.
    """

    def __init__(self, tree: ast.Module) -> None:
        """Read every scope of the tree."""
        self.nodes: list[ast.AST] = []
        self.imports: list[tuple[int, str]] = []
        """Line and dotted name of everything imported by a statement."""
        self._scope: dict[ast.AST, Scope] = {}
        self._dotted: dict[ast.AST, str | None] = {}
        self._aliases: set[ast.Name] = set()
        self._read(tree)

    def dotted(self, node: ast.AST, depth: int = 0) -> str | None:
        """Return the dotted name an expression stands for, from its module on, or None."""
        # Remembered, or a chain of aliases that call one another would take for ever.
        if node not in self._dotted:
            self._dotted[node] = self._resolve(node, depth)
        return self._dotted[node]

    def _resolve(self, node: ast.AST, depth: int) -> str | None:
        parts: list[str] = []
        while isinstance(node, ast.Attribute):
            parts.append(node.attr)
            node = node.value
            if len(parts) > _MOST_PARTS:
                return None
        base: str | None = None
        if depth > _DEEPEST_ALIAS:
            return None
        if isinstance(node, ast.Name):
            base = self._name(node, depth)
        elif isinstance(node, ast.Call):
            base = self._call(node, depth)
        elif isinstance(node, ast.Subscript):
            base = self._subscript(node, depth)
        if base is None:
            return None
        name = ".".join((base, *reversed(parts)))
        return name if len(name) <= _LONGEST else None

    def mentions(self) -> Iterator[tuple[int, str]]:
        """Yield line and dotted name of everything imported or referred to."""
        yield from self.imports
        for node in self.nodes:
            if isinstance(node, ast.Attribute | ast.Name | ast.Call | ast.Subscript):
                name = self.dotted(node)
                if name is not None:
                    yield node.lineno, name

    def calls(self) -> Iterator[tuple[ast.Call, str]]:
        """Yield every call of something that has a dotted name."""
        for node in self.nodes:
            if isinstance(node, ast.Call):
                name = self.dotted(node.func)
                if name is not None:
                    yield node, name

    def attributes(self) -> Iterator[tuple[int, str]]:
        """Yield line and name of every attribute of anything, by a dot or by `getattr`."""
        for node in self.nodes:
            if isinstance(node, ast.Attribute):
                yield node.lineno, node.attr
        for call, function in self.calls():
            if function in {"builtins.getattr", "builtins.setattr"} and len(call.args) >= 2:
                name = constant_text(call.args[1])
                if name is not None:
                    yield call.lineno, name

    def strings(self) -> Iterator[tuple[int, str]]:
        """Yield line and text of every string that is used; `*` where an f-string has a value."""
        inside = {
            part for node in self.nodes if isinstance(node, ast.JoinedStr) for part in node.values
        }
        idle = {node.value for node in self.nodes if isinstance(node, ast.Expr)}
        for node in self.nodes:
            if isinstance(node, ast.expr) and node not in inside and node not in idle:
                text = constant_text(node)
                if text is not None:
                    yield node.lineno, text

    def values(self, node: ast.Name) -> list[ast.expr]:
        """Return the expressions a name is bound to where it stands, as far as they are known."""
        scope = self._binder(node)
        found = scope.assigned.get(node.id, []) if scope is not None else []
        return [value for value in found if value is not None]

    def _binder(self, node: ast.Name) -> Scope | None:
        """Return the scope that binds a name where it stands; None for builtins and unknown ones."""
        here: Scope | None = self._scope[node]
        scope = here
        while scope is not None:
            if scope.binds(node.id) and (scope is here or not scope.is_class):
                return scope
            scope = scope.outer
        return None

    def _name(self, node: ast.Name, depth: int) -> str | None:
        name = node.id
        scope = self._binder(node)
        if scope is not None:
            if name in scope.imported:
                return scope.imported[name]
            values = scope.assigned[name]
            only = values[0] if len(values) == 1 else None
            return None if only is None else self.dotted(only, depth + 1)
        if name == "__builtins__":
            return "builtins"
        return f"builtins.{name}" if hasattr(builtins, name) else None

    def _call(self, node: ast.Call, depth: int) -> str | None:
        function = self.dotted(node.func, depth + 1)
        first = node.args[0] if node.args else None
        if function is None or first is None:
            return None
        if function in {"builtins.__import__", "importlib.import_module"}:
            module = constant_text(first)
            if module is None or function == "importlib.import_module":
                return module
            return module.partition(".")[0]
        owner = self.dotted(first, depth + 1)
        if owner is None:
            return None
        if function == "builtins.vars":
            return f"{owner}.__dict__"
        if function == "builtins.getattr" and len(node.args) >= 2:
            name = constant_text(node.args[1])
            return None if name is None else f"{owner}.{name}"
        return None

    def _subscript(self, node: ast.Subscript, depth: int) -> str | None:
        owner, key = self.dotted(node.value, depth + 1), constant_text(node.slice)
        if owner is None or key is None:
            return None
        if owner == "sys.modules":
            return key
        if owner == "builtins":
            return f"builtins.{key}"
        return f"{owner.removesuffix('.__dict__')}.{key}" if owner.endswith(".__dict__") else None

    def _read(self, tree: ast.Module) -> None:
        module = Scope(outer=None)
        pending: list[tuple[ast.AST, Scope]] = [(tree, module)]
        while pending:
            node, scope = pending.pop()
            self.nodes.append(node)
            self._scope[node] = scope
            self._bind(node, scope, module)
            inner = scope
            if isinstance(node, (*_FUNCTIONS, *_COMPREHENSIONS, ast.ClassDef)):
                inner = Scope(outer=scope, is_class=isinstance(node, ast.ClassDef))
            for name, value in ast.iter_fields(node):
                # Decorators, defaults and base classes are read where the definition stands.
                inside = name in {"body", "args", "generators", "elt", "key", "value"}
                for child in value if isinstance(value, list) else [value]:
                    if isinstance(child, ast.AST):
                        pending.append((child, inner if inside else scope))

    def _bind(self, node: ast.AST, scope: Scope, module: Scope) -> None:
        if isinstance(node, ast.Import):
            for alias in node.names:
                root = alias.name.partition(".")[0]
                scope.imported[alias.asname or root] = alias.name if alias.asname else root
                self.imports.append((node.lineno, alias.name))
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            for alias in node.names:
                full = f"{node.module}.{alias.name}"
                scope.imported[alias.asname or alias.name] = full
                self.imports.append((node.lineno, full))
        elif isinstance(node, ast.ImportFrom):
            for alias in node.names:
                scope.bind(alias.asname or alias.name, None)
        elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            # The target itself is met later and must not count as a second binding.
            self._aliases.add(node.targets[0])
            scope.bind(node.targets[0].id, node.value if len(node.targets) == 1 else None)
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            self._aliases.add(node.target)
            scope.bind(node.target.id, node.value)
        elif isinstance(node, ast.Global):
            scope.not_local.update(node.names)
            for name in node.names:
                module.bind(name, None)
        elif isinstance(node, ast.Nonlocal):
            scope.not_local.update(node.names)
        elif isinstance(node, ast.Name):
            if not isinstance(node.ctx, ast.Load) and node not in self._aliases:
                scope.bind(node.id, None)
        else:
            for name in _bound_by(node):
                scope.bind(name, None)


def _bound_by(node: ast.AST) -> list[str]:
    """Return the names that a node binds as such, not through a name node of its own."""
    if isinstance(node, ast.arg):
        return [node.arg]
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return [node.name]
    if isinstance(node, ast.ExceptHandler | ast.MatchAs | ast.MatchStar) and node.name:
        return [node.name]
    return []


def constant_text(node: ast.AST) -> str | None:
    """Return a string literal's text, with `*` for the values of an f-string; None for others."""
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, str) else None
    if isinstance(node, ast.JoinedStr):
        return "".join(constant_text(part) or "*" for part in node.values)
    return None
