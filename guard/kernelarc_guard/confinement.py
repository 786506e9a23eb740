"""What untrusted code gives up before it starts: capabilities, files, network, system calls.

Standard library only.
"""

import ctypes
import os
import resource
from dataclasses import dataclass
from typing import Any, Final, Literal, Self

from kernelarc_guard import landlock, seccomp

Kind = Literal["bubblewrap+landlock", "landlock", "none"]
_CAPABILITY_VERSION_3: Final = 0x20080522
_PR_CAP_AMBIENT, _CLEAR_ALL = 47, 4
_PROC_FILES: Final = (
    "cpuinfo",
    "filesystems",
    "loadavg",
    "meminfo",
    "stat",
    "sys/kernel/osrelease",
    "sys/vm/overcommit_memory",
    "uptime",
    "version",
)
_SYS: Final = ("/sys/devices/system/cpu", "/sys/devices/system/node", "/sys/kernel/mm")
SEEN: Final = ("/dev/random", "/dev/urandom", *_SYS, *(f"/proc/{name}" for name in _PROC_FILES))
"""What untrusted code may read of the machine, beside the system's files."""
DEVICES: Final = ("/dev/null", "/dev/zero", "/dev/full")

_libc = ctypes.CDLL(None, use_errno=True)


@dataclass(frozen=True)
class Confinement:
    """How the processes of one nursery are held."""

    kind: Kind
    abi: int
    readable: tuple[str, ...]
    """Folders and files of the system, the interpreter and the compiler."""
    tasks: int
    """RLIMIT_NPROC, 0 where something else counts."""
    devices: tuple[str, ...] = ()
    """Device files that stay usable."""

    def as_json(self) -> dict[str, Any]:
        """Return what `from_json` reads."""
        return {
            "kind": self.kind,
            "abi": self.abi,
            "readable": list(self.readable),
            "tasks": self.tasks,
            "devices": list(self.devices),
        }

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> Self:
        """Read what `as_json` wrote."""
        return cls(
            value["kind"],
            value["abi"],
            tuple(value["readable"]),
            value["tasks"],
            tuple(value["devices"]),
        )

    def enter(self, solution: str, scratch: str, label: int) -> None:
        """Give up all that `solution` does not need to run with `scratch` as its only folder.

        There is no way back. `label` marks this process and all that it starts, for good.
        """
        resource.setrlimit(seccomp.LABEL, (label, label))
        if self.tasks:
            resource.setrlimit(resource.RLIMIT_NPROC, (self.tasks, self.tasks))
        drop_capabilities()
        landlock.no_new_privileges()
        if self.kind != "none":
            # Pinned on purpose until the process ends: the rule holds for this entry of /proc.
            own = os.open("/proc/self", os.O_PATH | os.O_CLOEXEC | os.O_DIRECTORY)
            landlock.restrict(
                (*self.readable, solution, *SEEN, f"/proc/self/fd/{own}"),
                (scratch,),
                (*DEVICES, *self.devices),
            )
        if seccomp.supported():
            seccomp.install(os.getpid(), self.abi < landlock.SIGNAL_SCOPE_ABI)


def drop_capabilities() -> None:
    """Give up every capability, for good once there are no new privileges."""
    _libc.prctl(_PR_CAP_AMBIENT, _CLEAR_ALL, 0, 0, 0)  # unknown to kernels before 4.3
    header = (ctypes.c_uint32 * 2)(_CAPABILITY_VERSION_3, 0)
    nothing = (ctypes.c_uint32 * 6)()
    if _libc.capset(header, nothing) != 0:
        raise OSError(ctypes.get_errno(), "capset failed")
