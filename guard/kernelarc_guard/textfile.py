"""Reading other people's JSON and text files without losing anything silently; light."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from pydantic import BaseModel, ValidationError

MAX_FILE_BYTES: Final = 64 << 20


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

    Repeated keys and NaN are refused: the first would be lost, the second is not JSON.
    """
    try:
        value = json.loads(text, object_pairs_hook=_unique, parse_constant=_no_constant)
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
        keys = [key for key, _ in pairs]
        twice = next(key for key in keys if keys.count(key) > 1)
        raise ValueError(f"key {twice!r} occurs twice in one object")
    return result


def _no_constant(name: str) -> float:
    raise ValueError(f"{name} is not JSON")


def known_only(raw: Any, model: type[BaseModel], where: str, warnings: list[str]) -> Any:
    """Return `raw` without the keys `model` does not have, naming each in `warnings`."""
    if not isinstance(raw, Mapping):
        return raw
    unknown = [key for key in raw if key not in model.model_fields]
    warnings.extend(f"{where}{key}: unknown key, ignored" for key in unknown)
    return {key: value for key, value in raw.items() if key in model.model_fields}


def first_error(error: ValidationError) -> tuple[str, str]:
    """Return a validation error's code and its one-line `field: expectation`."""
    first = error.errors(include_url=False)[0]
    # Discriminated unions put the chosen tag into the path; it is no field of the file.
    tags = {"const", "var", "expr"}
    loc = [str(part) for part in first["loc"]]
    field = ".".join(
        p for i, p in enumerate(loc) if not (i == 2 and loc[0] == "axes" and p in tags)
    )
    message = str(first["msg"]).removeprefix("Value error, ").replace("\n", " ")
    more = error.error_count() - 1
    suffix = f" (and {more} more)" if more else ""
    return str(first["type"]), f"{field}: {message}{suffix}" if field else f"{message}{suffix}"
