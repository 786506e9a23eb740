"""JSON schemas as the tools publish them: every reference inlined, no titles."""

from collections.abc import Mapping
from typing import Any

_DROPPED = frozenset({"$defs", "title", "discriminator"})
_VERBATIM = frozenset({"default", "enum", "const", "examples", "required"})
_NAMED = frozenset({"properties", "patternProperties"})
"""Keywords whose keys are names chosen by us, so `title` below them is a property."""


def inline(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return `schema` without references and titles.

    Some clients lose `$ref` or refuse it. Null branches stay: a client that validates an answer
    against this schema must accept the nulls the answer carries.
    """
    definitions: Mapping[str, Any] = schema.get("$defs", {})

    def walk(node: Any) -> Any:
        if isinstance(node, list):
            return [walk(item) for item in node]
        if not isinstance(node, Mapping):
            return node
        if "$ref" in node:
            target = definitions[str(node["$ref"]).rsplit("/", 1)[1]]
            beside = {key: value for key, value in node.items() if key != "$ref"}
            return walk({**target, **beside})
        plain: dict[str, Any] = {}
        for key, value in node.items():
            if key in _DROPPED:
                continue
            if key in _NAMED:
                plain[key] = {name: walk(below) for name, below in value.items()}
            else:
                plain[key] = value if key in _VERBATIM else walk(value)
        return plain

    inlined: dict[str, Any] = walk(schema)
    return inlined
