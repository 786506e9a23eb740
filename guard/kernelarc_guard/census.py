"""Who else is there: the processes of a nursery beside the runners it knows. Standard library only."""

import os
import resource
import signal
import time
from collections.abc import Callable, Collection
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from kernelarc_guard.processes import descendants
from kernelarc_guard.seccomp import LABEL

_KILL_SECONDS: Final = 5.0
_PAGE: Final = os.sysconf("SC_PAGE_SIZE")


@dataclass(frozen=True)
class Stranger:
    """A live process that a runner started; `label` tells which one."""

    pid: int
    label: int


class Census:
    """Counts and ends what runners started. For the warden, its first process or subreaper."""

    def __init__(self, namespaced: bool) -> None:
        """`namespaced`: this is the first process of its PID namespace, and all in it are ours."""
        self._namespaced = namespaced

    def pids(self) -> list[int]:
        """Return every process but this one."""
        me = os.getpid()
        if self._namespaced:
            return [
                pid for name in os.listdir("/proc") if name.isdigit() and (pid := int(name)) != me
            ]
        return descendants(me)

    def strangers(self, known: Collection[int]) -> list[Stranger]:
        """Return the live processes that are not `known`; the dead are reaped where they are ours."""
        found = []
        for pid in self.pids():
            if pid in known or not _alive(pid):
                continue
            with suppress(ProcessLookupError):
                found.append(Stranger(pid, resource.prlimit(pid, LABEL)[0]))
        return found

    def freeze(self) -> None:
        """Stop everything but this process at once, in a namespace of its own.

        A process that ends or forks itself on between being listed and being looked at would not be
        met, and would go on working after the window.
        """
        if self._namespaced:
            with suppress(ProcessLookupError):
                os.kill(-1, signal.SIGSTOP)  # under the kernel's lock: no fork escapes it

    def tasks(self) -> int:
        """Return how many threads all processes but this one have."""
        count = 0
        for pid in self.pids():
            with suppress(OSError), open(f"/proc/{pid}/stat", "rb") as stat:
                count += int(stat.read().rpartition(b")")[2].split()[17])
        return count

    def resident_bytes(self) -> int:
        """Return the memory that all processes but this one hold, shared pages counted in each."""
        total = 0
        for pid in self.pids():
            with suppress(OSError), open(f"/proc/{pid}/statm", "rb") as statm:
                total += int(statm.read().split()[1]) * _PAGE
        return total

    def end(self, label: int, known: Collection[int]) -> int:
        """Kill the strangers with a label, and return how many there were."""
        return self._end_while(lambda: [s.pid for s in self.strangers(known) if s.label == label])

    def end_all(self) -> int:
        """Kill everything but this process, however fast it forks, and return how many there were."""
        seen = len([pid for pid in self.pids() if _alive(pid)])
        if self._namespaced:
            with suppress(ProcessLookupError):
                os.kill(-1, signal.SIGKILL)  # one sweep under the kernel's lock: no fork escapes it
        self._end_while(lambda: [pid for pid in self.pids() if _alive(pid)])
        return seen

    def _end_while(self, targets: Callable[[], list[int]]) -> int:
        killed: set[int] = set()
        limit = time.monotonic() + _KILL_SECONDS
        while found := targets():
            for pid in found:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            killed.update(found)
            if time.monotonic() > limit:
                raise TimeoutError(f"{len(found)} processes cannot be killed")
            time.sleep(0.001)
        return len(killed)


def _alive(pid: int) -> bool:
    """Say whether any thread of a process is left; reap it where it is a dead child of ours."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as stat:
            fields = stat.read().rpartition(b")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return False
    state, threads = fields[0], int(fields[17])
    # A process whose first thread has ended shows as a zombie while others run on.
    if state in (b"Z", b"X") and threads <= 1:
        with suppress(ChildProcessError):
            os.waitpid(pid, os.WNOHANG)
        return False
    return True
