"""Finding the files that workloads name; light."""

import os
from contextlib import suppress
from pathlib import Path, PurePosixPath
from typing import Final

ROOTS: Final = ("FLASHINFER_TRACE_DIR", "FIB_DATASET_PATH")
"""Environment variables that name a data set's root, as its own tools have them."""


def find_file(folder: Path, relative: str) -> Path:
    """Return the file a workload names, below the problem's folder or a data set's root.

    In each of them leading parts of the path are dropped until a file exists. An absolute path is looked
    for there too, without its root: nothing outside is ever read. ValueError says where it was not.
    """
    pure = PurePosixPath(relative)
    parts = [part for part in pure.parts if part != pure.anchor]
    if ".." not in parts:
        for root in (folder, *_roots()):
            for start in range(len(parts)):
                candidate = root.joinpath(*parts[start:])
                with suppress(OSError, ValueError):  # a name that is too long, or no name
                    if candidate.is_file():
                        return candidate
    set_to = ", ".join(f"{name}={os.environ[name]}" for name in ROOTS if os.environ.get(name))
    raise ValueError(
        f"{relative}: no such file in the problem's folder, nor below {set_to}"
        if set_to
        else f"{relative}: no such file in the problem's folder; "
        f"{ROOTS[0]} may name the data set's root"
    )


def _roots() -> list[Path]:
    return [Path(os.environ[name]) for name in ROOTS if os.environ.get(name)]
