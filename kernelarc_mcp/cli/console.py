"""How commands speak: answers on standard output, everything else on standard error."""

import json
import sys
from typing import Any

from pydantic import BaseModel
from rich.console import Console

# A pipe or a file has no width of its own: wide enough that no table cell is folded.
out = Console(highlight=False, soft_wrap=True, width=None if sys.stdout.isatty() else 200)
err = Console(stderr=True, highlight=False, soft_wrap=True)

USER_ERROR = 2
"""Exit status where a command could not do what was asked."""


class UserError(Exception):
    """Something that the user can put right; the message is shown as one line."""


def counted(number: int, noun: str, nouns: str = "") -> str:
    """Return a number of things as it is read: `1 candidate`, `2 candidates`."""
    return f"{number} {noun if number == 1 else nouns or f'{noun}s'}"


def one_line(error: BaseException) -> str:
    """Return an error's message on one line."""
    return " ".join(str(error).split()) or type(error).__name__


def print_json(value: BaseModel | dict[str, Any] | list[Any]) -> None:
    """Print one JSON document, alone on standard output."""
    if isinstance(value, BaseModel):
        print(value.model_dump_json(indent=2))
    else:
        print(json.dumps(value, indent=2, allow_nan=False))
