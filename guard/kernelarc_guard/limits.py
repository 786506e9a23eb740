"""Process limits that hold without a sandbox: resource limits and the parent-death signal."""

import ctypes
import resource
import signal
from contextlib import suppress
from typing import Final

_PR_SET_PDEATHSIG: Final = 1
_PR_SET_DUMPABLE: Final = 4
_PR_SET_CHILD_SUBREAPER: Final = 36

_libc = ctypes.CDLL(None, use_errno=True)


def _prctl(option: int, value: int) -> None:
    if _libc.prctl(option, value, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), f"prctl({option}, {value}) failed")


def die_with_parent() -> None:
    """Ask the kernel to kill this process when the thread that started it ends."""
    _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def adopt_orphans() -> None:
    """Become the parent of descendants whose own parent ends, so that they can be waited for."""
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)


def set_dumpable(value: bool) -> None:
    """Allow or forbid other processes of this user to read this one's memory."""
    _prctl(_PR_SET_DUMPABLE, int(value))


def prefer_for_killing() -> None:
    """Let the kernel end this process first where memory runs out."""
    with suppress(OSError), open("/proc/self/oom_score_adj", "w") as score:
        score.write("1000")


def limit_runner(memory_bytes: int, file_bytes: int) -> None:
    """Bind a runner: no core files, bounded address space, file size and descriptors."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_AS, (memory_bytes, memory_bytes))
    resource.setrlimit(resource.RLIMIT_FSIZE, (file_bytes, file_bytes))
    resource.setrlimit(resource.RLIMIT_NOFILE, (1024, 1024))
