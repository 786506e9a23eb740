"""Read what compilers and linkers print into structured messages."""

import re
from pathlib import PurePosixPath
from typing import Final, Literal

from kernelarc_guard.protocol import BuildMessage

MOST: Final = 20
"""Messages that are kept, errors first."""

_LINE: Final = 4000

_AT_LINE: Final = re.compile(
    r"(?P<file>[^\s:][^:\n]*):(?P<line>\d+)(?::\d+)?: (?P<severity>(?:fatal )?error|warning): "
    r"(?P<message>.+)"
)
_UNDEFINED: Final = re.compile(r".*?(?P<message>undefined (?:reference to|symbol).+)")
_TOOL: Final = re.compile(r"[\w./+-]+: (?P<severity>(?:fatal )?error|warning): (?P<message>.+)")
_EXHAUSTED: Final = re.compile(r"(?P<message>virtual memory exhausted.*|.*out of memory.*)")


def read_messages(output: str, source_folder: str, entry_file: str) -> list[BuildMessage]:
    """Return the errors, then the warnings; line 0 of the entry file where none is named."""
    found: dict[BuildMessage, None] = {}
    for line in output.splitlines():
        message = _read(line.strip()[:_LINE], source_folder, entry_file)
        if message is not None:
            found[message] = None
    return sorted(found, key=lambda message: message.severity)[:MOST]


def _read(line: str, source_folder: str, entry_file: str) -> BuildMessage | None:
    if match := _AT_LINE.fullmatch(line):
        file = _relative(match["file"], source_folder)
        return _message(file, int(match["line"]), match["severity"], match["message"])
    if match := _UNDEFINED.fullmatch(line):
        return _message(entry_file, 0, "error", match["message"])
    if match := _TOOL.fullmatch(line):
        return _message(entry_file, 0, match["severity"], match["message"])
    if match := _EXHAUSTED.fullmatch(line):
        return _message(entry_file, 0, "error", match["message"])
    return None


def _message(file: str, line: int, severity: str, message: str) -> BuildMessage:
    kind: Literal["error", "warning"] = "warning" if severity == "warning" else "error"
    return BuildMessage(file=file, line=line, severity=kind, message=message[:1000])


def _relative(file: str, source_folder: str) -> str:
    """Name a file of the solution by its path there, a system header by its last two parts."""
    path = PurePosixPath(file)
    if path.is_relative_to(source_folder):
        return str(path.relative_to(source_folder))
    return "/".join(path.parts[-2:]) if path.is_absolute() else file
