"""The record's sources as a report shows them."""

import re
from pathlib import PurePosixPath
from typing import Final

from kernelarc_guard.model import Model
from kernelarc_mcp.reporting.document import Document

MOST_CHARACTERS: Final = 60_000
"""Of all files together; what is beyond is said to be left out, and report.json has all of it."""
_LANGUAGES: Final = {".py": "python", ".cu": "cuda", ".cuh": "cuda", ".cpp": "cpp", ".h": "cpp"}


class ShownFile(Model):
    """One file."""

    path: str
    content: str
    """Empty where it is left out."""
    characters: int
    fence: str
    """Opens and ends it in Markdown, longer than any run of backticks in it."""
    language: str


def kernel_files(document: Document) -> list[ShownFile]:
    """Return the files in their order; those for which there is no room without their content."""
    room = MOST_CHARACTERS
    found = []
    for one in document.record_files:
        size = len(one.content)
        shown = one.content if size <= room else ""
        room -= len(shown)
        ticks = max((len(run) for run in re.findall(r"`+", shown)), default=0)
        found.append(
            ShownFile(
                path=one.path,
                content=shown.rstrip("\n"),
                characters=size,
                fence="`" * max(3, ticks + 1),
                language=_LANGUAGES.get(PurePosixPath(one.path).suffix, ""),
            )
        )
    return found
