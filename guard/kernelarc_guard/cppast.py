"""C++ and CUDA sources as syntax trees; light, and tree-sitter is imported when first needed.

The C++ grammar reads CUDA: its qualifiers are blanked out first, and a launch parses as a template.
"""

import re
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from kernelarc_guard.faults import Refused

if TYPE_CHECKING:
    from tree_sitter import Node, Parser, Tree

SECONDS: Final = 5.0
"""Most that one source may take to be parsed, and again to be read."""
_CHUNK: Final = 1 << 16
_CUDA: Final = re.compile(
    rb"\b__(?:global|device|host|shared|constant|managed|grid_constant|forceinline|noinline"
    rb"|restrict)__\b|\b__launch_bounds__\s*\([^()\n]*\)"
)
_EVERY: Final = 4096
_DECLARATORS: Final = frozenset(
    {
        "pointer_declarator",
        "reference_declarator",
        "array_declarator",
        "parenthesized_declarator",
        "function_declarator",
        "attributed_declarator",
        "init_declarator",
    }
)
_ROLES: Final = {
    "function_definition": "body",
    "declaration": "prototype",
    "field_declaration": "prototype",
}
_SCOPES: Final = frozenset(
    {"namespace_definition", "class_specifier", "struct_specifier", "union_specifier"}
)


@dataclass(frozen=True)
class Place:
    """Where a node stands."""

    broken: bool = False
    """Inside something that did not parse: what it says may be anything."""
    exported: bool = False
    """Inside `extern "C"`."""
    scoped: bool = False
    """Inside a namespace, a class or a function: what is declared here is the source's own."""
    role: str = ""
    """`body` or `prototype`: what the declarator on the way here belongs to; `qualified`: a name that
    some namespace or class has."""


class Unit:
    """One parsed source, whatever it holds."""

    def __init__(self, text: str, seconds: float = SECONDS) -> None:
        """Parse the text; raises Refused where tree-sitter is not installed."""
        self._source = text.encode("utf-8", "replace")
        self._blanked = _CUDA.sub(lambda match: b" " * len(match[0]), self._source)
        self._seconds = seconds
        self.complete = False
        """Whether all of it was parsed and read within the time."""
        self._tree: Tree | None = None
        end = time.monotonic() + seconds
        # tree-sitter says no more than "failed" where its callback asks it to stop.
        with suppress(ValueError):
            self._tree = _parser().parse(
                lambda offset, _: self._blanked[offset : offset + _CHUNK],
                progress_callback=lambda _offset, _error: time.monotonic() > end,
            )

    def nodes(self) -> "Iterator[tuple[Node, Place]]":
        """Yield every node that is compiled, until the time is up; later ones at the same depth last.

        A stack of its own: sources nest deeper than Python recurses.
        """
        if self._tree is None:
            return
        end = time.monotonic() + self._seconds
        pending = [(self._tree.root_node, Place())]
        count = 0
        while pending:
            node, place = pending.pop()
            yield node, place
            count += 1
            if count % _EVERY == 0 and time.monotonic() > end:
                return
            children = node.children
            if node.type == "preproc_if" and self._never(node):
                # Not compiled; what stands in its #else is.
                children = [child for child in children if child.type.startswith("preproc_el")]
            inner = self._inside(node, place)
            pending.extend((child, inner) for child in reversed(children))
        self.complete = True

    def text(self, node: "Node") -> str:
        """Return the source text of a node."""
        return self._source[node.start_byte : node.end_byte].decode("utf-8", "replace")

    def line(self, node: "Node") -> int:
        """Return the line, from 1, a node begins on."""
        return node.start_point.row + 1

    def _never(self, node: "Node") -> bool:
        condition = node.child_by_field_name("condition")
        return condition is not None and self.text(condition) == "0"

    def _inside(self, node: "Node", place: Place) -> Place:
        """Return the place of a node's children."""
        kind = node.type
        if kind == "ERROR":
            return Place(broken=True, scoped=place.scoped)
        if kind in _ROLES:
            return replace(place, role=_ROLES[kind])
        if kind in _DECLARATORS:
            return place
        if kind == "linkage_specification":
            value = node.child_by_field_name("value")
            if value is not None and self.text(value) == '"C"':
                return replace(place, exported=True, role="")
        elif kind in _SCOPES:
            return replace(place, scoped=True, exported=False, role="")
        elif kind == "qualified_identifier":
            inner = place.role == "qualified" or node.child_by_field_name("scope") is not None
            return replace(place, role="qualified" if inner else "")
        elif kind == "compound_statement":
            return replace(place, scoped=True, role="")
        return replace(place, role="") if place.role else place


def _parser() -> "Parser":
    try:
        import tree_sitter_cpp
        from tree_sitter import Language, Parser
    except ImportError as error:
        raise Refused(
            f"C++ and CUDA sources cannot be checked: {error}; install kernelarc-mcp[guard]"
        ) from None
    return Parser(Language(tree_sitter_cpp.language()))
