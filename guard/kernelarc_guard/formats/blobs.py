"""Finding the files that workloads name; light."""

import os
from pathlib import Path, PurePosixPath
from typing import Final

from kernelarc_guard.formats.links import refuse_links_out

ROOTS: Final = ("FLASHINFER_TRACE_DIR", "FIB_DATASET_PATH")
"""Environment variables that name a data set's root, as its own tools have them."""


def find_file(folder: Path, relative: str) -> Path:
    """Return the file a workload names, below the problem's folder or a data set's root.

    In each of them leading parts of the path are dropped until a file exists. An absolute path is looked
    for there too, without its root: nothing outside is ever read, through no link either. ValueError
    says where it was not, or which link leads out.
    """
    pure = PurePosixPath(relative)
    parts = [part for part in pure.parts if part != pure.anchor]
    if ".." not in parts:
        for root in (folder, *_roots()):
            for start in range(len(parts)):
                candidate = root.joinpath(*parts[start:])
                if _is_file(candidate):
                    refuse_links_out(candidate, root)
                    return candidate
    set_to = ", ".join(f"{name}={os.environ[name]}" for name in ROOTS if os.environ.get(name))
    raise ValueError(
        f"{relative}: no such file in the problem's folder, nor below {set_to}"
        if set_to
        else f"{relative}: no such file in the problem's folder; "
        f"{ROOTS[0]} may name the data set's root"
    )


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except (OSError, ValueError):  # a name that is too long, or no name
        return False


def _roots() -> list[Path]:
    return [Path(os.environ[name]) for name in ROOTS if os.environ.get(name)]
