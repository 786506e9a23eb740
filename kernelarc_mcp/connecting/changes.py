"""Changes to a client's configuration that leave everything else in it as it was."""

import json
import re
import tomllib
from dataclasses import dataclass
from typing import Any, Protocol

Json = Any


class CannotChange(Exception):
    """A file is not what we can safely change; the message says what to do by hand."""


class Change(Protocol):
    """One change of one file."""

    @property
    def path(self) -> str:
        """Return the file's path, relative to the project."""

    def apply(self, text: str) -> str:
        """Return the file's new text from its old one, empty where there was none."""


@dataclass(frozen=True)
class JsonEntry:
    """Set `value` at `keys` in a JSON document."""

    path: str
    keys: tuple[str, ...]
    value: Json

    def apply(self, text: str) -> str:
        """Return the document with the entry; CannotChange where it is no plain JSON object."""
        document = _object(text, self.path)
        inner = _inside(document, self.keys[:-1], self.path)
        inner[self.keys[-1]] = self.value
        return _written(document)


@dataclass(frozen=True)
class JsonMember:
    """Put `value` into the list at `key` of a JSON document, in place of one with the same `id`.

    Members whose `id` begins with `instead_of` make room for it too, where that is given.
    """

    path: str
    key: str
    value: Json
    instead_of: str = ""

    def apply(self, text: str) -> str:
        """Return the document with the member; CannotChange where that is no list."""
        document = _object(text, self.path)
        members = document.setdefault(self.key, [])
        if not isinstance(members, list):
            raise CannotChange(f"{self.path}: `{self.key}` is no list; put it right by hand")
        document[self.key] = [m for m in members if not self._gone(m)] + [self.value]
        return _written(document)

    def _gone(self, member: Json) -> bool:
        if self.instead_of and isinstance(member, dict):
            return str(member.get("id", "")).startswith(self.instead_of)
        return _same(member, self.value)


@dataclass(frozen=True)
class TomlTable:
    """Set the table `keys` of a TOML document to `values`: texts, numbers, lists and one inner table."""

    path: str
    keys: tuple[str, ...]
    values: dict[str, Any]

    def apply(self, text: str) -> str:
        """Return the document with the table, comments and order kept; CannotChange if that fails."""
        before = self._without(_toml(text, self.path))
        kept = self._cut(text).rstrip()
        new = (f"{kept}\n\n" if kept else "") + self._written()
        try:
            after = self._without(tomllib.loads(new))
        except tomllib.TOMLDecodeError:
            after = None
        if after != before:
            name = ".".join(self.keys)
            raise CannotChange(
                f"{self.path}: [{name}] is written there in a form that cannot be replaced safely; "
                "remove it by hand and run this again"
            )
        return new

    def _cut(self, text: str) -> str:
        """Return the text without this table and the tables inside it."""
        name = r"\s*\.\s*".join(rf"[\"']?{re.escape(key)}[\"']?" for key in self.keys)
        ours = re.compile(rf"^\s*\[\s*{name}\s*(\..*)?\]\s*(#.*)?$")
        kept: list[str] = []
        after: list[str] = []
        cutting = False
        for line in text.splitlines():
            if line.lstrip().startswith("["):
                cutting = ours.match(line) is not None
                kept += [] if cutting else after
                after = []
            if not cutting:
                kept.append(line)
            elif line.strip() and not line.lstrip().startswith("#"):
                after = []
            else:
                # What follows this table's last line is not ours.
                after.append(line)
        return "\n".join(kept + after)

    def _without(self, document: dict[str, Any]) -> dict[str, Any]:
        outer, *inner = self.keys
        rest = {key: value for key, value in document.items() if key != outer}
        group = document.get(outer, {})
        if not isinstance(group, dict):
            return document
        others = {key: value for key, value in group.items() if key != inner[0]}
        return rest | ({outer: others} if others else {})

    def _written(self) -> str:
        name = ".".join(self.keys)
        flat = {key: v for key, v in self.values.items() if not isinstance(v, dict)}
        lines = [f"[{name}]", *(f"{key} = {toml_value(value)}" for key, value in flat.items())]
        for key, value in self.values.items():
            if isinstance(value, dict):
                lines += ["", f"[{name}.{key}]"]
                lines += [f"{toml_value(k)} = {toml_value(v)}" for k, v in value.items()]
        return "\n".join(lines) + "\n"


@dataclass(frozen=True)
class WholeFile:
    """A file that is ours: its text is replaced."""

    path: str
    text: str

    def apply(self, text: str) -> str:
        """Return the file's text, whatever was there."""
        return self.text


@dataclass(frozen=True)
class FirstText:
    """A file that is the user's where there is one: written only where there is none."""

    path: str
    text: str

    def apply(self, text: str) -> str:
        """Return what was there, else our text."""
        return text or self.text


def _object(text: str, path: str) -> dict[str, Any]:
    if not text.strip():
        return {}
    try:
        document = json.loads(text)
    except json.JSONDecodeError as error:
        raise CannotChange(
            f"{path}: not plain JSON (line {error.lineno}: {error.msg}); comments would be lost, so "
            "add the entry by hand: without --write it is printed"
        ) from None
    if not isinstance(document, dict):
        raise CannotChange(f"{path}: expected a JSON object")
    return document


def _inside(document: dict[str, Any], keys: tuple[str, ...], path: str) -> dict[str, Any]:
    inner = document
    for key in keys:
        inner = inner.setdefault(key, {})
        if not isinstance(inner, dict):
            raise CannotChange(f"{path}: `{key}` is no object; put it right by hand")
    return inner


def _same(member: Json, value: Json) -> bool:
    if isinstance(member, dict) and isinstance(value, dict) and "id" in value:
        return bool(member.get("id") == value["id"])
    return bool(member == value)


def _written(document: dict[str, Any]) -> str:
    return json.dumps(document, indent=2, ensure_ascii=False) + "\n"


def _toml(text: str, path: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise CannotChange(f"{path}: not TOML: {error}") from None


def toml_value(value: str | int | list[str] | dict[str, Any]) -> str:
    """Return a value as TOML writes it on one line."""
    if isinstance(value, dict):
        pairs = (f"{toml_value(key)} = {toml_value(inner)}" for key, inner in value.items())
        return "{" + ", ".join(pairs) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(toml_value(item) for item in value) + "]"
    # A basic string escapes as JSON does, but for one control character that JSON leaves alone.
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
