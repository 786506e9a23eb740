"""Printing and writing a client's configuration."""

import os
import tempfile
from pathlib import Path
from typing import Final

from kernelarc_mcp.connecting.changes import CannotChange, Change, FirstText
from kernelarc_mcp.connecting.forms import Form

LEFT_ALONE: Final = "left alone"
"""What became of a file that is the user's and has another text than ours."""


def printed(form: Form) -> tuple[str, str]:
    """Return the path and the text of the file that holds the server's entry, as a new file."""
    path = form.changes[0].path
    return path, _changed("", [change for change in form.changes if change.path == path])


def written(form: Form, project: Path) -> list[tuple[Path, str]]:
    """Make every change below `project`; return each file with what became of it.

    All changes are worked out before the first file is touched. CannotChange says why not.
    """
    wanted: dict[str, list[Change]] = {}
    for change in form.changes:
        wanted.setdefault(change.path, []).append(change)
    plan = []
    for path, changes in wanted.items():
        target = project / path
        before = _text_of(target)
        plan.append((target, before, _changed(before, changes)))
    done = []
    for target, before, after in plan:
        if before != after:
            _replace(target, after)
        done.append((target, _became(before, after, wanted[str(target.relative_to(project))])))
    return done


def _became(before: str, after: str, changes: list[Change]) -> str:
    if before != after:
        return "changed" if before else "written"
    theirs = [one for one in changes if isinstance(one, FirstText) and one.text != before]
    return LEFT_ALONE if theirs else "unchanged"


def _changed(text: str, changes: list[Change]) -> str:
    for change in changes:
        text = change.apply(text)
    return text


def _text_of(target: Path) -> str:
    try:
        return target.read_text(encoding="utf-8")
    except FileNotFoundError:
        return ""
    except (OSError, UnicodeDecodeError) as error:
        raise CannotChange(f"{target}: cannot be read: {error}") from None


def _replace(target: Path, text: str) -> None:
    """Write a file whole or not at all, through a link if it is one, keeping its mode."""
    target = target.resolve()
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        mode = target.stat().st_mode & 0o777 if target.exists() else 0o644
        handle, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
        try:
            with os.fdopen(handle, "w", encoding="utf-8") as file:
                file.write(text)
            os.chmod(name, mode)
            os.replace(name, target)
        except OSError:
            os.unlink(name)
            raise
    except OSError as error:
        raise CannotChange(f"{target}: cannot be written: {error.strerror}") from None
