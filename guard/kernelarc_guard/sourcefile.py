"""Source files as text: UTF-8, or for Python what the file itself declares; light."""

import io
import re
import tokenize
from pathlib import Path
from typing import Final

from kernelarc_guard.textfile import read_text

_DECLARES: Final = re.compile(
    r"\A((?:[^\n]*\n)?[ \t\f]*#[^\n]*?coding[:=][ \t]*)([-\w.]+)", re.ASCII
)


def read_source(path: Path, warnings: list[str]) -> str:
    """Return a source file's text; ValueError, starting with the file's name, where it is none.

    A Python file that is not UTF-8 is decoded as it declares; the text then declares UTF-8, which is
    how it is kept, and `warnings` says so.
    """
    try:
        return read_text(path)
    except ValueError as error:
        if path.suffix != ".py" or not isinstance(error.__context__, UnicodeDecodeError):
            raise
        return _declared(path, str(error), warnings)


def _declared(path: Path, complaint: str, warnings: list[str]) -> str:
    data = path.read_bytes()
    try:
        encoding, _ = tokenize.detect_encoding(io.BytesIO(data).readline)
        if encoding.startswith("utf-8"):
            raise ValueError(complaint)
        text = data.decode(encoding)
    except (SyntaxError, LookupError, UnicodeError):
        raise ValueError(f"{complaint}, or as its first lines declare") from None
    text = _DECLARES.sub(r"\g<1>utf-8", text, count=1)
    try:
        kept, _ = tokenize.detect_encoding(io.BytesIO(text.encode()).readline)
    except SyntaxError:
        kept = ""
    if kept != "utf-8":
        raise ValueError(f"{complaint}; what it declares cannot be kept as UTF-8")
    warnings.append(f"{path.name}: read as {encoding}, as it declares, and kept as UTF-8")
    return text
