"""An agent's working directory: the branch's files are written there, nothing is overwritten silently."""

import logging
import os
import tempfile
from pathlib import Path
from typing import Final

from kernelarc_guard.solution import SourceFile

log = logging.getLogger(__name__)

PREVIOUS: Final = "previous"
"""Where files that differ are moved before others take their place, in numbered directories."""
_PARTIAL: Final = ".kernelarc-partial-"


def restore_workspace(folder: Path, sources: list[SourceFile]) -> None:
    """Do as write_workspace, but only log what an agent has made impossible in its folder."""
    try:
        write_workspace(folder, sources)
    except OSError as error:
        log.warning("the workspace %s could not be restored: %s", folder, error)


def write_workspace(folder: Path, sources: list[SourceFile]) -> list[str]:
    """Make the files in `folder` those of `sources` and return the paths that were moved away.

    A file that differs is first moved to ``previous/NNN/``; files of other names stay. What a process
    that was killed had only half written is removed.
    """
    moved: list[str] = []
    keep: Path | None = None
    for source in sources:
        target = folder / source.path
        data = source.content.encode()
        if _same(target, data):
            continue
        obstacle = _obstacle(folder, target)
        if obstacle is not None:
            keep = keep or _next_previous(folder)
            relative = obstacle.relative_to(folder)
            (keep / relative).parent.mkdir(parents=True, exist_ok=True)
            obstacle.rename(keep / relative)
            moved.append(relative.as_posix())
        target.parent.mkdir(parents=True, exist_ok=True)
        _write_whole(target, data)
    for parent in {(folder / source.path).parent for source in sources}:
        for left in parent.glob(f"{_PARTIAL}*"):
            left.unlink(missing_ok=True)
    return moved


def _same(target: Path, data: bytes) -> bool:
    return target.is_file() and not target.is_symlink() and target.read_bytes() == data


def _obstacle(folder: Path, target: Path) -> Path | None:
    """Return what stands where `target` must go: itself, or a parent that is no real directory."""
    for parent in reversed(target.relative_to(folder).parents):
        path = folder / parent
        if path != folder and (path.is_symlink() or (path.exists() and not path.is_dir())):
            return path
    return target if target.is_symlink() or target.exists() else None


def _next_previous(folder: Path) -> Path:
    root = folder / PREVIOUS
    attempt = 0
    while root.is_symlink() or (root.exists() and not root.is_dir()):
        # The agent put something else there; files must not leave the workspace through it.
        attempt += 1
        root = folder / f"{PREVIOUS}-{attempt}"
    root.mkdir(exist_ok=True)
    numbers = [int(child.name) for child in root.iterdir() if child.name.isdecimal()]
    keep = root / f"{max(numbers, default=0) + 1:03d}"
    keep.mkdir()
    return keep


def _write_whole(target: Path, data: bytes) -> None:
    """Write so that no reader sees half a file."""
    handle, partial = tempfile.mkstemp(dir=target.parent, prefix=_PARTIAL)
    with os.fdopen(handle, "wb") as file:
        file.write(data)
    os.replace(partial, target)
