"""Repairs texts that are not UTF-8 before the SDK's JSON parser sees them.

The SDK drops a line it cannot parse, and the client then waits for ever. Here bytes that are not
UTF-8 and lone surrogate escapes become U+FFFD, which the tools refuse with the argument's name.
"""

import io
import os
import re
from typing import BinaryIO

_ESCAPES = re.compile(
    rb"\\u[dD][89aAbB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}"  # a pair: fine
    rb"|\\u[dD][89a-fA-F][0-9a-fA-F]{2}"  # half of one
    rb"|\\."  # any other escape, so that an escaped backslash hides what follows it
)


def repair(message: bytes) -> bytes:
    """Return `message` as JSON text in valid UTF-8, with U+FFFD for what was not."""
    try:
        message.decode("utf-8")
    except UnicodeDecodeError:
        message = message.decode("utf-8", "replace").encode("utf-8")
    if b"\\u" not in message:
        return message
    return _ESCAPES.sub(_lone_to_replacement, message)


def _lone_to_replacement(escape: re.Match[bytes]) -> bytes:
    found = escape.group()
    return rb"\ufffd" if len(found) == 6 and found[1:3].lower() == b"ud" else found


class RepairedInput(io.BufferedIOBase):
    """A byte stream of lines, each repaired."""

    def __init__(self, source: BinaryIO) -> None:
        self._source = source
        self._rest = b""

    @property
    def name(self) -> str:
        """Return what error messages call it."""
        return "<repaired input>"

    def readable(self) -> bool:
        """Return True."""
        return True

    def read1(self, size: int = -1) -> bytes:
        """Return at most `size` bytes, waiting for a line where none is left over."""
        if not self._rest:
            self._rest = repair(self._source.readline())
        end = len(self._rest) if size is None or size < 0 else size
        taken, self._rest = self._rest[:end], self._rest[end:]
        return taken

    def read(self, size: int | None = -1) -> bytes:
        """Return `size` bytes, or all to the end."""
        wanted = -1 if size is None else size
        parts: list[bytes] = []
        got = 0
        while (wanted < 0 or got < wanted) and (
            part := self.read1(wanted - got if wanted >= 0 else -1)
        ):
            parts.append(part)
            got += len(part)
        return b"".join(parts)


def take_stdin() -> io.TextIOWrapper:
    """Return standard input repaired; descriptor 0 becomes /dev/null for children."""
    private = os.fdopen(os.dup(0), "rb")
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.close(null)
    return io.TextIOWrapper(RepairedInput(private), encoding="utf-8")
