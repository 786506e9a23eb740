"""Finding and ending processes that were left behind. Standard library only."""

import os
import signal
import time
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Final

_END_SECONDS: Final = 5.0


def children(pid: int) -> list[int]:
    """Return the direct children of a process; empty where it is gone."""
    found: list[int] = []
    with suppress(FileNotFoundError, ProcessLookupError):
        for task in Path(f"/proc/{pid}/task").iterdir():
            with suppress(FileNotFoundError, ProcessLookupError):
                found.extend(int(child) for child in (task / "children").read_text().split())
    return found


def descendants(pid: int) -> list[int]:
    """Return all descendants of a process, parents before children."""
    # Without recursion: untrusted code decides how long a chain of children is.
    found, pending = list[int](), [pid]
    while pending:
        below = children(pending.pop())
        found.extend(below)
        pending.extend(below)
    return found


def kill_all(pids: Iterable[int]) -> None:
    """Send SIGKILL to every process that still exists."""
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def end_children() -> None:
    """Kill and reap this process's descendants, orphans it adopted among them.

    Another thread may be starting more of them: it never waits for a particular one.
    """
    limit = time.monotonic() + _END_SECONDS
    while (left := descendants(os.getpid())) and time.monotonic() < limit:
        kill_all(left)
        for pid in children(os.getpid()):
            with suppress(ChildProcessError):
                os.waitpid(pid, os.WNOHANG)
        time.sleep(0.002)
