"""Reading other people's JSON and text files without losing anything silently; light."""

import json
import math
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from pydantic import BaseModel, ValidationError

MAX_FILE_BYTES: Final = 64 << 20
_SHOWN: Final = 200
_LONGEST: Final = 2000
_MOST_WARNINGS: Final = 100
_MOST_ERRORS: Final = 8
"""How many faulty fields one message names."""
_HALF: Final = re.compile(r"\\u[dD][89a-fA-F]")


def read_text(path: Path) -> str:
    """Return a UTF-8 file's text; ValueError, starting with the file's name, where it is none."""
    try:
        if not path.is_file():
            raise ValueError(f"{path.name}: no such file")
        if path.stat().st_size > MAX_FILE_BYTES:
            raise ValueError(f"{path.name}: is larger than {MAX_FILE_BYTES >> 20} MiB")
        return path.read_bytes().decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ValueError(f"{path.name}: byte {error.start}: expected UTF-8 text") from None
    except OSError as error:
        raise ValueError(f"{path.name}: cannot be read: {error.strerror}") from None


def parse_object(text: str, where: str) -> dict[str, Any]:
    """Parse one JSON object; ValueError, starting with `where`, for anything else.

    Repeated keys, NaN and halves of characters are refused: the first would be lost, the second is
    not JSON, the third no text.
    """
    try:
        value = json.loads(
            text, object_pairs_hook=_unique, parse_constant=_no_constant, parse_float=_finite
        )
        if _HALF.search(text) is not None:
            json.dumps(value, ensure_ascii=False).encode()  # two halves may be a whole
    except UnicodeEncodeError as error:
        half = ord(error.object[error.start])
        raise ValueError(
            f"{where}: \\u{half:04x} is half of a character; expected UTF-8 text"
        ) from None
    except json.JSONDecodeError as error:
        raise ValueError(
            f"{where}: line {error.lineno}: expected JSON: {error.msg} at column {error.colno}"
        ) from None
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{where}: expected JSON: {error}") from None
    if not isinstance(value, dict):
        raise ValueError(f"{where}: expected a JSON object, found {type(value).__name__}")
    return value


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result = dict(pairs)
    if len(result) != len(pairs):
        seen: set[str] = set()
        for key, _ in pairs:
            if key in seen:
                raise ValueError(f"key {shown(key)} occurs twice in one object")
            seen.add(key)
    return result


def _no_constant(name: str) -> float:
    raise ValueError(f"{name} is not JSON")


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(f"{shown(text)} is larger than a number can be")
    return value


def shown(text: str) -> str:
    """Return a text as an error shows it: quoted, without line breaks, cut where it is long."""
    return repr(text if len(text) <= _SHOWN else f"{text[:_SHOWN]} ... [{len(text)} characters]")


def known_only(raw: Any, model: type[BaseModel], where: str, warnings: list[str]) -> Any:
    """Return `raw` without the keys `model` does not have, naming each in `warnings`."""
    if not isinstance(raw, Mapping):
        return raw
    unknown = [key for key in raw if key not in model.model_fields]
    named = unknown[:_MOST_WARNINGS]
    warnings.extend(f"{where}{_key(key)}: unknown key, ignored" for key in named)
    if len(unknown) > len(named):
        warnings.append(f"{where}{len(unknown) - len(named)} more unknown keys, ignored")
    return {key: value for key, value in raw.items() if key in model.model_fields}


def _key(key: str) -> str:
    return key if key.isprintable() and len(key) <= _SHOWN else shown(key)


def first_error(error: ValidationError) -> tuple[str, str]:
    """Return a validation error's code and its one-line `field: expectation`, then further ones."""
    found = error.errors(include_url=False)
    named = [_named(one["loc"], one["msg"]) for one in found[:_MOST_ERRORS]]
    more = len(found) - len(named)
    suffix = f" (and {more} more)" if more else ""
    return str(found[0]["type"]), "; ".join(named) + suffix


def _named(loc: tuple[int | str, ...], said: str) -> str:
    # Discriminated unions put the chosen tag into the path; it is no field of the file.
    tags = {"const", "var", "expr"}
    keys = [_key(str(part)) for part in loc]
    field = ".".join(
        p for i, p in enumerate(keys) if not (i == 2 and keys[0] == "axes" and p in tags)
    )
    message = " ".join(said.removeprefix("Value error, ").split())
    if len(message) > _LONGEST:
        message = f"{message[:_LONGEST]} ... [cut, {len(message)} characters]"
    return f"{field}: {message}" if field else message
