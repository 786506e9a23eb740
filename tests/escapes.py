"""Ways out of a sandbox, tried by real code: what a runner or a builder asks the kernel for, by kind.

`probe(kind, aims)` is Python source that tries every way of a kind and leaves `RESULTS`, a dict from the attempt
to `refused: ENAME` or `worked: ...`. The same source runs in a runner, as a solution, and in a builder, as its compiler.
"""

from dataclasses import asdict, dataclass
from typing import Final

from kernelarc_guard import seccomp

HEAD: Final = """import ctypes, errno, fcntl, json, os, resource, signal, socket, struct, subprocess, sys

RESULTS = {}
class NothingDone(Exception):
    pass

libc = ctypes.CDLL(None, use_errno=True)
libc.syscall.restype = ctypes.c_long

def attempt(name, step):
    try:
        RESULTS[name] = "worked: " + repr(step())[:60]
    except OSError as error:
        RESULTS[name] = "refused: " + errno.errorcode.get(error.errno, type(error).__name__)
    except BaseException as error:
        RESULTS[name] = "refused: " + type(error).__name__

def call(number, *arguments):
    passed = [ctypes.c_long(a) if isinstance(a, int) else a for a in arguments]
    value = libc.syscall(ctypes.c_long(number), *passed)
    if value < 0:
        raise OSError(ctypes.get_errno(), "refused")
    return value

def opened(path, flags=os.O_RDONLY):
    os.close(os.open(path, flags))
    return path

"""


@dataclass(frozen=True)
class Aims:
    """What of the host is aimed at; every one exists and is open to any process of this user."""

    guard: int
    """Process id of the guard."""
    readable: dict[str, str]
    """Files that hold what nobody in a sandbox may know, by what they are called in the answers."""
    folders: dict[str, str]
    """Folders that are not the sandbox's own."""
    port: int
    """Of a TCP and a UDP server on the loopback address."""
    abstract: str
    """Name of an abstract Unix socket, without its leading NUL."""
    named: str
    """Path of a Unix socket."""
    queue: int
    """Id of a System V shared memory segment of the host; -1 where it has none."""


_NETWORK = """
for family in ("AF_INET", "AF_INET6"):
    kind = getattr(socket, family)
    attempt(f"TCP to a server of the host, {family}", lambda: socket.socket(kind).connect(
        ("127.0.0.1" if family == "AF_INET" else "::1", AIMS["port"])))
    attempt(f"UDP to a server of the host, {family}", lambda: socket.socket(
        kind, socket.SOCK_DGRAM).sendto(b"x", ("127.0.0.1" if family == "AF_INET" else "::1", AIMS["port"])))
attempt("TCP to the world", lambda: socket.create_connection(("1.1.1.1", 53), 2))
attempt("a name looked up", lambda: socket.getaddrinfo("example.org", 80))
attempt("listen on TCP", lambda: socket.create_server(("0.0.0.0", 0)).getsockname())
for family in ("AF_NETLINK", "AF_PACKET", "AF_VSOCK", "AF_ALG"):
    for kind in ("SOCK_DGRAM", "SOCK_RAW", "SOCK_SEQPACKET"):
        attempt(f"socket {family} {kind}", lambda: socket.socket(
            getattr(socket, family), getattr(socket, kind)).family)
attempt("raw socket", lambda: socket.socket(socket.AF_INET, socket.SOCK_RAW, 1))
attempt("abstract socket of the host", lambda: socket.socket(socket.AF_UNIX).connect("\\0" + AIMS["abstract"]))
attempt("named socket of the host", lambda: socket.socket(socket.AF_UNIX).connect(AIMS["named"]))
attempt("datagram to a named socket", lambda: socket.socket(
    socket.AF_UNIX, socket.SOCK_DGRAM).sendto(b"x", AIMS["named"] + ".datagram"))
attempt("datagram from a pair", lambda: socket.socketpair(
    socket.AF_UNIX, socket.SOCK_DGRAM)[0].sendto(b"x", AIMS["named"] + ".datagram"))
"""

_FILES = """
for short, path in AIMS["readable"].items():
    attempt("read " + short, lambda: open(path, "rb").read(4))
for short, path in AIMS["folders"].items():
    attempt("list " + short, lambda: os.listdir(path) and "listed")
    attempt("write to " + short, lambda: open(path + "/planted", "w").close())
    attempt("make a folder in " + short, lambda: os.mkdir(path + "/planted-folder"))
    attempt("link into " + short, lambda: os.symlink("/etc", path + "/planted-link"))
    attempt("rename " + short, lambda: os.rename(path, path + ".moved"))
    def mode():
        before = os.stat(path).st_mode
        os.chmod(path, 0o1777 if before & 0o777 != 0o777 else 0o755)
        if os.stat(path).st_mode == before:
            raise NothingDone
    attempt("change the mode of " + short, mode)
attempt("hard link to a file of the host", lambda: os.link(AIMS["readable"]["the ledger"], "linked"))
attempt("follow a link out of scratch", lambda: os.symlink(AIMS["readable"]["the ledger"], "way") or open("way").read(4))
"""

_PROCESSES = """
for name, pid in (("the first process", 1), ("the guard", AIMS["guard"]), ("its parent", os.getppid())):
    for file in ("mem", "maps", "environ", "status", "cmdline", "fd", "root", "cwd", "map_files", "ns/net"):
        attempt(f"/proc of {name}: {file}", lambda: opened(f"/proc/{pid}/{file}"))
    attempt(f"signal 0 to {name}", lambda: os.kill(pid, 0))
    attempt(f"SIGCONT to {name}", lambda: os.kill(pid, signal.SIGCONT))
    attempt(f"pidfd signal to {name}", lambda: signal.pidfd_send_signal(os.pidfd_open(pid), 0))
    attempt(f"limits of {name}", lambda: resource.prlimit(pid, resource.RLIMIT_CPU, (1 << 40, 1 << 40)))
    attempt(f"priority of {name}", lambda: os.setpriority(os.PRIO_PROCESS, pid, 19))
    def owned():
        one, other = socket.socketpair()
        fcntl.fcntl(one, fcntl.F_SETFL, os.O_ASYNC | os.O_NONBLOCK)
        fcntl.fcntl(one, fcntl.F_SETOWN, pid)
        other.send(b"x")
        raise NothingDone  # it ends whom it reaches: whoever is aimed at has to be looked at
    if pid == AIMS["guard"]:
        attempt(f"SIGIO to {name}", owned)
    vector = (ctypes.c_void_p * 2)(ctypes.addressof(ctypes.create_string_buffer(8)), 8)
    for what, number in (("ptrace attach", "ptrace"), ("process_vm_readv", "process_vm_readv"),
                         ("process_vm_writev", "process_vm_writev")):
        arguments = (16, pid, 0, 0) if number == "ptrace" else (pid, vector, 1, vector, 1, 0)
        attempt(f"{what}: {name}", lambda: call(DENIED[number], *arguments))
    attempt(f"a descriptor of {name}", lambda: call(DENIED["pidfd_getfd"], os.pidfd_open(pid), 0, 0))
attempt("its own map_files", lambda: os.listdir("/proc/self/map_files") and opened(
    "/proc/self/map_files/" + os.listdir("/proc/self/map_files")[0], os.O_RDWR))
"""

_KERNEL = """
for name, number in sorted(DENIED.items()):
    attempt(name, lambda: call(number, -1, -1, -1, -1, -1, -1))
attempt("user namespace by clone", lambda: call(CLONE, 0x10000000 | 17, 0, 0, 0, 0))
attempt("network namespace by clone", lambda: call(CLONE, 0x40000000 | 17, 0, 0, 0, 0))
attempt("clone as a sibling", lambda: call(CLONE, 0x8000 | 17, 0, 0, 0, 0))
attempt("clone3", lambda: call(435, 0, 0))
attempt("32-bit calls", lambda: call(0x40000000 | 39))
attempt("shared memory segment of the host", lambda: call(DENIED["shmat"], AIMS["queue"], 0, 0))
def preallocated(ask):
    file = os.open("preallocated", os.O_CREAT | os.O_RDWR)
    try:
        return ask(file)
    finally:
        os.close(file)
for mode in (0, 1):
    attempt(f"fallocate, mode {mode}", lambda: preallocated(lambda file: call(FALLOCATE, file, mode, 0, 4096)))
attempt("fallocate by ioctl", lambda: preallocated(lambda file: fcntl.ioctl(
    file, 0x4030582A, struct.pack("=hh4xqqiI4i", 0, 0, 0, 4096, 0, 0, 0, 0, 0, 0))))
attempt("its own label", lambda: resource.setrlimit(resource.RLIMIT_MSGQUEUE, (0, 0)))
if os.getuid() != 0:
    attempt("become root", lambda: os.setuid(0))
attempt("other groups", lambda: os.setgroups([0]))
attempt("regain capabilities", lambda: call(CAPSET, (ctypes.c_uint32 * 2)(0x20080522, 0),
                                            (ctypes.c_uint32 * 6)(*[0xFFFFFFFF] * 6)))
attempt("set-user-ID programs", lambda: subprocess.run(["su", "-c", "id"], check=True, capture_output=True))
"""

_DEVICES = """
for path in ("/dev/mem", "/dev/kmsg", "/dev/kvm", "/dev/fuse", "/dev/net/tun", "/dev/nvidia0", "/dev/nvidiactl",
             "/dev/nvidia-uvm", "/dev/dri", "/dev/shm", "/dev/mqueue", "/dev/tty", "/dev/ptmx", "/sys/fs/cgroup",
             "/sys/kernel/debug", "/sys/kernel/security", "/proc/sys/kernel/core_pattern", "/proc/sysrq-trigger",
             "/proc/kcore", "/proc/keys"):
    attempt("open " + path, lambda: opened(path, os.O_RDONLY))
attempt("make a device", lambda: os.mknod("device", 0o20666, os.makedev(1, 1)))
attempt("a file of /dev/shm", lambda: open("/dev/shm/planted", "w").close())
attempt("nvidia-smi", lambda: subprocess.run(["nvidia-smi", "-lgc", "300"], check=True))
attempt("NVML", lambda: ctypes.CDLL("libnvidia-ml.so.1").nvmlInit_v2())
attempt("write to a core's frequency", lambda: opened(
    "/sys/devices/system/cpu/cpu0/cpufreq/scaling_max_freq", os.O_WRONLY))
attempt("drop all caches", lambda: opened("/proc/sys/vm/drop_caches", os.O_WRONLY))
"""

KINDS: Final[dict[str, str]] = {
    "network": _NETWORK,
    "files": _FILES,
    "processes": _PROCESSES,
    "kernel": _KERNEL,
    "devices and tools": _DEVICES,
}


def probe(kind: str, aims: Aims) -> str:
    """Return source that tries all ways of a kind."""
    clone = {"x86_64": 56, "aarch64": 220}
    capset = {"x86_64": 126, "aarch64": 91}
    fallocate = {"x86_64": 285, "aarch64": 47}
    known = (
        f"AIMS = {asdict(aims)!r}\nDENIED = {seccomp.denied()!r}\nMACHINE = os.uname().machine\n"
        f"CLONE, CAPSET = {clone!r}[MACHINE], {capset!r}[MACHINE]\n"
        f"FALLOCATE = {fallocate!r}[MACHINE]\n"
    )
    return HEAD + known + KINDS[kind]


IN_BUILDER: Final = "\nprint('<<' + json.dumps(RESULTS) + '>>')\n"
