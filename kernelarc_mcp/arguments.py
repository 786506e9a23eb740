"""What was wrong with a tool's arguments, said so that a model can correct the call.

pydantic's own text repeats the rejected input, which may be a whole kernel; these sentences name
the argument, what arrived and what is allowed, and repeat no text.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from pydantic import ValidationError

_NO_TEXT = re.compile("[\ud800-\udfff\N{REPLACEMENT CHARACTER}]")
"""A lone surrogate, or what stands for bytes that were no text."""
_ADDED = ("wait_for_previous",)
"""What clients add to every tool's arguments themselves (Gemini CLI): no slip of the model's."""
_TYPE_NAMES = {
    "string": "a string",
    "integer": "an integer",
    "number": "a number",
    "boolean": "true or false",
    "object": "an object",
    "array": "a list",
}


def known_arguments(schema: Mapping[str, Any], arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments that the tool has; of others the answer says that they were ignored."""
    return {name: value for name, value in arguments.items() if name in schema["properties"]}


def text_fault(arguments: Mapping[str, Any]) -> str | None:
    """Return why a text among the arguments is not valid UTF-8, or None."""
    for name, text in _texts(arguments):
        if (found := _NO_TEXT.search(text)) is not None:
            position = found.start()
            line = text.count("\n", 0, position) + 1
            return (
                f"`{name}` is not valid UTF-8 text: character {position + 1} (line {line}) is "
                f"U+{ord(found[0]):04X}, which stands for bytes that were not UTF-8. "
                "Send the text as UTF-8, without that character."
            )
    return None


def number_fault(schema: Mapping[str, Any], arguments: Mapping[str, Any]) -> str | None:
    """Return which number was given as true or false (pydantic would read them as 1 and 0)."""
    for name, value in arguments.items():
        wanted = schema["properties"][name]
        if isinstance(value, bool) and wanted.get("type") in ("integer", "number"):
            return f"`{name}`: expected {allowed(wanted)}, got {received(value)}."
    return None


def ignored(schema: Mapping[str, Any], given: Mapping[str, Any]) -> str:
    """Return which arguments the tool does not have, as one sentence, or an empty string."""
    strangers = [_short(name) for name in given if name not in {*schema["properties"], *_ADDED}][:5]
    if not strangers:
        return ""
    return f"Ignored, because this tool has no such argument: {', '.join(strangers)}."


def explain(schema: Mapping[str, Any], given: Mapping[str, Any], error: ValidationError) -> str:
    """Return one sentence for each argument that was refused."""
    said: dict[str, str] = {}
    for fault in error.errors(include_url=False, include_input=False, include_context=False):
        name = str(fault["loc"][0]) if fault["loc"] else "arguments"
        if name in said:
            continue
        if fault["type"] == "missing":
            wanted = allowed(schema["properties"].get(name, {}))
            note = ignored(schema, given)
            said[name] = f"`{name}` is missing: expected {wanted}.{note and f' ({note})'}"
        else:
            inside = "".join(f"[{_short(part)}]" for part in fault["loc"][1:])
            value = _at(given.get(name), fault["loc"][1:])
            wanted = allowed(_below(schema["properties"].get(name, {}), fault["loc"][1:]))
            said[name] = f"`{name}{inside}`: expected {wanted}, got {received(value)}."
    return " ".join(said.values())


def allowed(schema: Mapping[str, Any]) -> str:
    """Describe in words what a property's schema allows."""
    if "enum" in schema:
        return "one of " + ", ".join(repr(choice) for choice in schema["enum"])
    kind = _TYPE_NAMES.get(str(schema.get("type")), "another value")
    if schema.get("type") == "object":
        values = schema.get("additionalProperties")
        inner = values.get("type") if isinstance(values, Mapping) else None
        most = f" of at most {schema['maxProperties']}" if "maxProperties" in schema else ""
        return f"{kind}{most} whose values are {inner}s" if inner else f"{kind}{most}"
    if schema.get("type") == "array":
        inner = schema.get("items", {}).get("type")
        most = f" of at most {schema['maxItems']}" if "maxItems" in schema else ""
        return f"{kind}{most} {inner}s" if most else f"{kind} of {inner}s"
    low = schema.get("minLength", schema.get("minimum"))
    high = schema.get("maxLength", schema.get("maximum"))
    unit = " characters" if schema.get("type") == "string" else ""
    if low is not None and high is not None:
        return f"{kind} ({_plain(low)} to {_plain(high)}{unit})"
    if high is not None:
        return f"{kind} (at most {_plain(high)}{unit})"
    return kind


def received(value: object) -> str:
    """Describe a value by its JSON type and size, not by its contents."""
    match value:
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case int() | float():
            written = repr(value) if abs(value) < 1e15 else "a number of that size"
            return f"the number {written}" if abs(value) < 1e15 else written
        case str():
            return f"a string of {len(value)} characters"
        case list():
            return f"a list of {len(value)} items"
        case dict():
            return f"an object with {len(value)} keys"
        case _:
            return "a value of another type"


def _texts(arguments: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for name, value in arguments.items():
        if isinstance(value, str):
            yield name, value
        elif isinstance(value, dict):
            for key, inner in value.items():
                if isinstance(key, str):
                    yield name, key
                if isinstance(inner, str):
                    yield f"{name}[{_short(key)}]", inner
        elif isinstance(value, list):
            for index, inner in enumerate(value):
                if isinstance(inner, str):
                    yield f"{name}[{index}]", inner


def _at(value: Any, path: tuple[int | str, ...]) -> object:
    for part in path:
        in_object = isinstance(value, dict) and part in value
        in_list = isinstance(value, list) and isinstance(part, int) and part < len(value)
        if not (in_object or in_list):
            return value
        value = value[part]
    return value


def _below(schema: Mapping[str, Any], path: tuple[int | str, ...]) -> Mapping[str, Any]:
    for part in path:
        inner = schema.get("items" if isinstance(part, int) else "additionalProperties")
        if not isinstance(inner, Mapping):
            return schema
        schema = inner
    return schema


def _plain(number: float) -> str:
    return str(int(number)) if number == int(number) else str(number)


def _short(part: object) -> str:
    written = ascii(part)
    return written if len(written) <= 40 else written[:37] + "..."
