"""Where the project's data directories are, in a checkout and in an installed wheel."""

from functools import cache
from pathlib import Path
from typing import Literal

_HERE = Path(__file__).resolve().parent


@cache
def data_dir(kind: Literal["strategies", "kernels", "clients"]) -> Path:
    """Return the directory of `kind`: live in a checkout, ``_data/`` inside a wheel."""
    packaged = _HERE / "_data" / kind
    return packaged if packaged.is_dir() else _HERE.parent / kind
