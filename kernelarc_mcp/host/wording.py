"""Words that are for readers on one backend: `<cuda>...</cuda>` and `<cpu>...</cpu>` in any text."""

import re
from typing import Final

from kernelarc_mcp.host.lenses import Backend

_MARKED: Final = re.compile(r"<(cpu|cuda)>(.*?)</\1>", re.DOTALL)


def worded(text: str, backend: Backend | None) -> str:
    """Return a text as it is read on a backend; with None, by readers of all of them."""
    return _MARKED.sub(lambda m: m[2] if backend in (None, m[1]) else "", text)
