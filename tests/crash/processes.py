"""Which process of a full stack is which, from the kernel's tables."""

import os
from contextlib import suppress
from pathlib import Path
from typing import Final, Literal

from kernelarc_guard.processes import children, descendants
from kernelarc_mcp.host.election import holder_of

Role = Literal[
    "stdio server", "HTTP server", "dispatcher", "guard", "nursery", "runner", "builder", "client"
]
ROLES: Final[tuple[Role, ...]] = (
    *("stdio server", "HTTP server", "dispatcher", "guard"),
    *("nursery", "runner", "builder", "client"),
)
_COMPILERS: Final = frozenset({"g++", "c++", "cc1plus", "as", "ld", "collect2"})


def dispatcher(folder: Path) -> list[int]:
    """Return the process that holds the campaign's seat, if it lives."""
    holder = holder_of(folder)
    alive = holder is not None and words(holder.process)
    return [holder.process] if holder is not None and alive else []


def guards(folder: Path) -> list[int]:
    """Return the guard of the dispatcher."""
    below = [pid for one in dispatcher(folder) for pid in children(one)]
    return [pid for pid in below if "kernelarc_guard" in words(pid)]


def nurseries(folder: Path) -> list[int]:
    """Return the processes that fork runners."""
    return [pid for pid in _of_nurseries(folder) if parent(pid) not in _of_nurseries(folder)]


def runners(folder: Path) -> list[int]:
    """Return the processes with candidates in them."""
    found = set(_of_nurseries(folder))
    return [pid for pid in found if parent(pid) in found]


def builders(folder: Path) -> list[int]:
    """Return compilers and what supervises them."""
    below = [pid for guard in guards(folder) for pid in descendants(guard)]
    return [
        pid
        for pid in below
        if "kernelarc_guard.compile_job" in words(pid) or name(pid) in _COMPILERS
    ]


def servers_of(clients: list[int]) -> list[int]:
    """Return the stdio servers that clients have started."""
    return [pid for client in clients for pid in children(client) if "serve" in words(pid)]


def words(pid: int) -> list[str]:
    """Return a process's command line; empty where it is gone or a zombie."""
    with suppress(FileNotFoundError, ProcessLookupError):
        return Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace").split("\0")[:-1]
    return []


def name(pid: int) -> str:
    """Return a process's name; empty where it is gone."""
    with suppress(FileNotFoundError, ProcessLookupError):
        return Path(f"/proc/{pid}/comm").read_text().strip()
    return ""


def parent(pid: int) -> int:
    """Return a process's parent; 0 where it is gone."""
    with suppress(FileNotFoundError, ProcessLookupError, IndexError):
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    return 0


def _of_nurseries(folder: Path) -> list[int]:
    below = [pid for guard in guards(folder) for pid in descendants(guard)]
    return [
        pid
        for pid in below
        if "kernelarc_guard.nursery" in words(pid) and os.path.basename(words(pid)[0]) != "bwrap"
    ]
