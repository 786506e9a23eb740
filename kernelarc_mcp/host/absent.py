"""What a folder is that holds no campaign, for whoever named the wrong one."""

from pathlib import Path
from typing import Final

_MOST: Final = 8
"""Campaigns that are named."""


def no_campaign(folder: Path, file: str) -> str:
    """Return why `folder` is no campaign, whose database would be `file`, and what it is instead."""
    missing = f"{folder}: no campaign here ({file} is missing)"
    if said := _instead(folder, file):
        return f"{missing}; {said}"
    return missing


def _instead(folder: Path, file: str) -> str:
    if not folder.exists():
        return "there is no such folder"
    if not folder.is_dir():
        return "it is a file; a backup is opened with `kernelarc-mcp restore FILE NEW_DIR`"
    if (folder / "definition.json").is_file():
        return f"it is a problem: `kernelarc-mcp problems {folder}`, `new DIR --problem {folder}`"
    if (folder.parent / file).is_file():
        return f"it is part of the campaign {folder.parent}"
    below = sorted(path.parent for path in folder.glob(f"*/{file}"))
    if below:
        named = ", ".join(str(path) for path in below[:_MOST])
        more = f" and {len(below) - _MOST} more" if len(below) > _MOST else ""
        return f"campaigns in it: {named}{more}"
    if not any(folder.iterdir()):
        return "it is empty"
    return ""
