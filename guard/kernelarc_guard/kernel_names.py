"""Kernels' names, cut to what tells them apart; pure."""

import re
from typing import Final

from kernelarc_guard.profile_model import printable

_NAME: Final = 80
_SCOPE: Final = re.compile(r"(?:\b\w+|\(anonymous namespace\)|<unnamed>)::")


def short_name(name: str, most: int = _NAME) -> str:
    """Return a kernel's name without its arguments, cut with a mark where it is longer than `most`."""
    plain = name.strip().removeprefix("void ")
    if plain.endswith(")"):
        depth = 0
        for at in range(len(plain) - 1, 0, -1):
            depth += {")": 1, "(": -1}.get(plain[at], 0)
            if depth == 0:
                plain = plain[:at]
                break
    return printable(plain, most)


def bare_name(name: str) -> str:
    """Return a kernel's name as `short_name` does, without the namespaces of its parts."""
    return short_name(_SCOPE.sub("", name))
