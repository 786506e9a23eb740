"""What a C++ or CUDA source calls, declares and says, as far as its text tells; light.

Comments and what is not compiled are no part of it. Names hidden by macros stay unknown: a source
that hides what it does is the isolation's business, not ours.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from kernelarc_guard.cppast import SECONDS, Place, Unit

if TYPE_CHECKING:
    from tree_sitter import Node

_SHOWN: Final = 200
_STRINGS: Final = frozenset({"string_literal", "raw_string_literal", "concatenated_string"})
_LITERAL: Final = re.compile(r'R"([^()\\\s]{0,16})\((.*?)\)\1"|"((?:[^"\\]|\\.)*)"', re.DOTALL)
_IDENTIFIERS: Final = frozenset({"identifier", "field_identifier", "type_identifier"})
_DECLARING: Final = frozenset(
    {
        "declaration",
        "field_declaration",
        "parameter_declaration",
        "optional_parameter_declaration",
        "init_declarator",
        "pointer_declarator",
        "array_declarator",
        "for_range_loop",
        "type_definition",
    }
)
"""Nodes whose field `declarator` names what they declare."""
_NAMING: Final = frozenset(
    {
        "class_specifier",
        "struct_specifier",
        "union_specifier",
        "enum_specifier",
        "enumerator",
        "alias_declaration",
        "preproc_def",
        "preproc_function_def",
    }
)
"""Nodes whose field `name` names what they declare."""
_MAKING: Final = frozenset({"new_expression", "compound_literal_expression"})


@dataclass(frozen=True)
class Call:
    """One call, or one object that is made."""

    name: str
    """As written, without a leading `::` and without spaces; a method's own name."""
    line: int
    arguments: tuple[str, ...]
    texts: tuple[str, ...]
    """The arguments that are string literals."""
    method: bool
    broken: bool
    """Stands in something that did not parse."""


class CppNames:
    """The names of one C++ or CUDA source."""

    def __init__(self, source: str, seconds: float = SECONDS) -> None:
        """Read the source; raises Refused where tree-sitter is not installed."""
        self.calls: list[Call] = []
        self.used: dict[str, tuple[int, bool]] = {}
        """Identifier -> the line of a use, and whether it stands in something broken."""
        self.own: set[str] = set()
        """What the source itself defines or declares, prototypes of C functions left out."""
        self.exported: list[tuple[int, str]] = []
        """Line and name of every function defined with C linkage."""
        self.assembly: list[tuple[int, str, bool]] = []
        """Line and text of every piece of assembly, and whether it stands in something broken."""
        self.strings: list[tuple[int, str]] = []
        self.macros: list[tuple[int, str]] = []
        """Line and body of every macro, its string literals left out."""
        self.includes: list[tuple[int, str]] = []
        self.at_load: list[int] = []
        """Lines of functions that run when the library is loaded."""
        self._unit = Unit(source, seconds)
        for node, place in self._unit.nodes():
            self._read(node, place)
        self.complete: bool = self._unit.complete

    def named(self, *names: str) -> Iterator[Call]:
        """Yield the calls of functions with one of these names."""
        for call in self.calls:
            if not call.method and call.name in names:
                yield call

    def _read(self, node: "Node", place: Place) -> None:
        kind = node.type
        if kind in _IDENTIFIERS:
            name = self._unit.text(node)
            plain = kind == "identifier" and place.role != "qualified"
            if plain and self.used.get(name, (0, True))[1]:
                self.used[name] = self._unit.line(node), place.broken
        elif kind in _STRINGS:
            self.strings.append((self._unit.line(node), self._literal(node)))
        elif kind == "call_expression":
            self._call(node, place)
        elif kind == "gnu_asm_expression":
            code = node.child_by_field_name("assembly_code")
            if code is not None:
                self.assembly.append((self._unit.line(node), self._literal(code), place.broken))
        elif kind.startswith("preproc_"):
            self._directive(node)
        elif kind in ("attribute_specifier", "attribute"):
            if re.search(r"\b(?:__)?constructor(?:__)?\b", self._unit.text(node)):
                self.at_load.append(self._unit.line(node))
        self._declare(node, place)

    def _call(self, node: "Node", place: Place) -> None:
        function = node.child_by_field_name("function")
        arguments = node.child_by_field_name("arguments")
        if function is None:
            return
        method = function.type == "field_expression"
        if method:
            function = function.child_by_field_name("field") or function
        self._add_call(node, self._unit.text(function), arguments, method, place)

    def _add_call(
        self, node: "Node", name: str, arguments: "Node | None", method: bool, place: Place
    ) -> None:
        given = arguments.named_children if arguments is not None else []
        self.calls.append(
            Call(
                name=re.sub(r"\s+", "", name).removeprefix("::")[:_SHOWN],
                line=self._unit.line(node),
                arguments=tuple(self._unit.text(one)[:_SHOWN] for one in given),
                texts=tuple(self._literal(one) for one in given if one.type in _STRINGS),
                method=method,
                broken=place.broken,
            )
        )

    def _directive(self, node: "Node") -> None:
        line = self._unit.line(node)
        path, value = node.child_by_field_name("path"), node.child_by_field_name("value")
        if path is not None:
            self.includes.append((line, self._unit.text(path).strip('<">')))
        if node.type in ("preproc_def", "preproc_function_def") and value is not None:
            self.macros.append((line, _LITERAL.sub('""', self._unit.text(value))))

    def _declare(self, node: "Node", place: Place) -> None:
        kind = node.type
        if kind == "function_declarator":
            self._function(node, place)
        elif kind in _DECLARING:
            for declared in node.children_by_field_name("declarator"):
                self._note(declared)
                self._made(node, declared, place)
        elif kind in _NAMING:
            self._note(node.child_by_field_name("name"))
        elif kind in ("reference_declarator", "structured_binding_declarator"):
            for child in node.named_children:
                self._note(child)
        elif kind == "using_declaration":
            self.own.add(self._unit.text(node).rstrip("; ").rpartition("::")[2].strip())
        elif kind in _MAKING:
            self._make(node, node, place)

    def _function(self, node: "Node", place: Place) -> None:
        name = node.child_by_field_name("declarator")
        if name is not None and name.type == "qualified_identifier":
            self.own.add(self._unit.text(name).rpartition("::")[2])
        if name is None or name.type not in _IDENTIFIERS:
            return
        # A prototype at file scope only says that some library has the function.
        if place.role != "prototype" or place.scoped:
            self._note(name)
        if place.role == "body" and place.exported and not place.broken:
            self.exported.append((self._unit.line(name), self._unit.text(name)))

    def _note(self, node: "Node | None") -> None:
        if node is not None and node.type in _IDENTIFIERS:
            self.own.add(self._unit.text(node))

    def _made(self, node: "Node", declared: "Node", place: Place) -> None:
        """Take `Type name(arguments)` for a call of the type."""
        value = declared.child_by_field_name("value")
        if declared.type == "init_declarator" and value is not None:
            if value.type in ("argument_list", "initializer_list"):
                self._make(node, declared, place)

    def _make(self, node: "Node", holder: "Node", place: Place) -> None:
        made = node.child_by_field_name("type")
        given = holder.child_by_field_name("arguments") or holder.child_by_field_name("value")
        if made is not None:
            self._add_call(node, self._unit.text(made), given, False, place)

    def _literal(self, node: "Node") -> str:
        """Return what the string literals of a node say together."""
        parts = [
            match[2] if match[2] is not None else _unescaped(match[3])
            for match in _LITERAL.finditer(self._unit.text(node))
        ]
        return "".join(parts)


def _unescaped(text: str) -> str:
    for written, meant in ((r"\n", "\n"), (r"\t", "\t"), (r"\"", '"'), (r"\\", "\\")):
        text = text.replace(written, meant)
    return text
