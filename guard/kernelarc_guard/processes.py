"""Finding and ending processes that were left behind. Standard library only."""

import os
import signal
from collections.abc import Collection, Iterable
from contextlib import suppress
from pathlib import Path


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
    found: list[int] = []
    for child in children(pid):
        found.extend([child, *descendants(child)])
    return found


def kill_all(pids: Iterable[int]) -> None:
    """Send SIGKILL to every process that still exists."""
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def sweep(keep: Collection[int]) -> int:
    """Kill and reap this process's children except `keep`, orphans it adopted among them.

    Returns how many were still running.
    """
    running = 0
    while strays := [pid for pid in children(os.getpid()) if pid not in keep]:
        for pid in strays:
            kill_all([*descendants(pid), pid])
            with suppress(ChildProcessError):
                _, status = os.waitpid(pid, 0)
                running += os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL
    return running
