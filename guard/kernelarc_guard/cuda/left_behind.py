"""What a solution left in the room where it was profiled, taken for what it may be: hostile; light."""

import json
import os
import shutil
from pathlib import Path
from typing import Final

from kernelarc_guard.faults import Refused
from kernelarc_guard.profile_model import printable
from kernelarc_guard.scratch import files_below

MOST_WORDS: Final = 300
"""Characters of what a solution or its profiler says."""
_TOLD_BYTES: Final = 64 << 10
_MOST_BINARIES: Final = 64
"""Compiled while the solution ran; of more, the first ones are read, and that is said."""
_BINARY_BYTES: Final = 64 << 20


class CallFailed(Refused):
    """The solution failed while it was profiled."""


def is_plain(path: Path) -> bool:
    """Say whether this is a file to be read, and no link that a solution may have put there."""
    return path.is_file() and not path.is_symlink() and os.access(path, os.R_OK)


def raise_its_failure(path: Path) -> None:
    """Raise CallFailed where the file of the solution's process says that it failed."""
    if not is_plain(path) or path.stat().st_size > _TOLD_BYTES:
        return
    try:
        said = json.loads(path.read_text(encoding="utf-8", errors="replace"))
    except (ValueError, RecursionError):
        return  # it is no failure of the call that a solution spoilt this
    if isinstance(said, dict) and isinstance(said.get("error"), str):
        words = printable(said["error"], MOST_WORDS)
        raise CallFailed(f"the solution failed while it was profiled: {words}")


def compiled_while_running(out: Path, target: Path) -> tuple[list[Path], list[str]]:
    """Copy the binaries below `out` to `target`, under names of our own.

    Returns the copies, and notes on what was not copied.
    """
    files = files_below(out)
    if files is None:
        return [], ["no code that it compiled: its folders are shut, or nest too deeply"]
    left = [(Path(path), size) for path, size in sorted(files) if path.endswith(".cubin")]
    fit = [path for path, size in left if size <= _BINARY_BYTES and is_plain(path)]
    copies = []
    for number, path in enumerate(fit[:_MOST_BINARIES]):
        copies.append(target / f"compiled-{number}.cubin")
        shutil.copyfile(path, copies[-1])
    missing = len(left) - len(copies)
    return copies, [f"{missing} of its {len(left)} compiled binaries were not read"] * bool(missing)
