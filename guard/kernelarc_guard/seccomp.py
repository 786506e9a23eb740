"""A seccomp filter for runners: the system calls that no kernel needs and that reach out of a sandbox.

Landlock knows files, TCP and signals; this closes what it does not: other address families, kernel
threads that go on while a process is stopped, limits and priorities of other processes, namespaces,
tracing. Standard library only.
"""

import ctypes
import errno
import platform
import resource
import struct
from typing import Final

_SECCOMP: Final = {"x86_64": 317, "aarch64": 277}
_AUDIT_ARCH: Final = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
_COLUMN: Final = {"x86_64": 0, "aarch64": 1}

_DENIED: Final = {
    # Other processes: memory, descriptors, identity, placement, priority.
    "ptrace": (101, 117),
    "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271),
    "kcmp": (312, 272),
    "pidfd_getfd": (438, 438),
    "process_madvise": (440, 440),
    "move_pages": (279, 239),
    "migrate_pages": (256, 238),
    "setpriority": (141, 140),
    "ioprio_set": (251, 30),
    "sched_setscheduler": (144, 119),
    "sched_setparam": (142, 118),
    "sched_setattr": (314, 274),
    # The kernel as a helper or a target.
    "perf_event_open": (298, 241),
    "bpf": (321, 280),
    "userfaultfd": (323, 282),
    "io_uring_setup": (425, 425),
    "io_uring_enter": (426, 426),
    "io_uring_register": (427, 427),
    "io_setup": (206, 0),
    # They expire while their process is stopped, in the middle of another arm's window.
    "timer_create": (222, 107),
    "timerfd_create": (283, 85),
    "keyctl": (250, 219),
    "add_key": (248, 217),
    "request_key": (249, 218),
    "init_module": (175, 105),
    "finit_module": (313, 273),
    "delete_module": (176, 106),
    "kexec_load": (246, 104),
    "kexec_file_load": (320, 294),
    "reboot": (169, 142),
    "swapon": (167, 224),
    "swapoff": (168, 225),
    "acct": (163, 89),
    "quotactl": (179, 60),
    "syslog": (103, 116),
    "iopl": (172, -1),
    "ioperm": (173, -1),
    "settimeofday": (164, 170),
    "clock_settime": (227, 112),
    "adjtimex": (159, 171),
    "clock_adjtime": (305, 266),
    "sethostname": (170, 161),
    "setdomainname": (171, 162),
    "vhangup": (153, 58),
    # Namespaces and mounts.
    "unshare": (272, 97),
    "setns": (308, 268),
    "chroot": (161, 51),
    "pivot_root": (155, 41),
    "mount": (165, 40),
    "umount2": (166, 39),
    "move_mount": (429, 429),
    "open_tree": (428, 428),
    "open_tree_attr": (467, 467),
    "fsopen": (430, 430),
    "fsconfig": (431, 431),
    "fsmount": (432, 432),
    "fspick": (433, 433),
    "mount_setattr": (442, 442),
    "name_to_handle_at": (303, 264),
    "open_by_handle_at": (304, 265),
    "fanotify_init": (300, 262),
    "inotify_add_watch": (254, 27),
    # Landlock does not know sockets that have a path, a container engine's or an agent's for example.
    "connect": (42, 203),
    # Memory that outlives a process or is shared by name.
    "shmget": (29, 194),
    "shmat": (30, 196),
    "semget": (64, 190),
    "msgget": (68, 186),
    "mq_open": (240, 180),
}
_METADATA: Final = {
    "chmod": (90, -1),
    "fchmod": (91, 52),
    "fchmodat": (268, 53),
    "fchmodat2": (452, 452),
    "chown": (92, -1),
    "fchown": (93, 55),
    "lchown": (94, -1),
    "fchownat": (260, 54),
    "utimensat": (280, 88),
    "utime": (132, -1),
    "utimes": (235, -1),
    "futimesat": (261, -1),
    "setxattr": (188, 5),
    "lsetxattr": (189, 6),
    "fsetxattr": (190, 7),
    "setxattrat": (463, 463),
    "removexattr": (197, 14),
    "lremovexattr": (198, 15),
    "fremovexattr": (199, 16),
    "removexattrat": (466, 466),
    "file_setattr": (469, 469),
}
_SIGNALS: Final = {
    "kill": (62, 129),
    "tkill": (200, 130),
    "tgkill": (234, 131),
    "rt_sigqueueinfo": (129, 138),
    "rt_tgsigqueueinfo": (297, 240),
}
_PIDFD_SEND_SIGNAL: Final = (424, 424)
_CLONE, _CLONE3, _SOCKET, _SOCKETPAIR = (56, 220), (435, 435), (41, 198), (53, 199)
_SCHED_SETAFFINITY, _PRLIMIT, _SETRLIMIT = (203, 122), (302, 261), (160, 164)
_FCNTL, _IOCTL, _FALLOCATE = (72, 25), (16, 29), (285, 47)
_NEW_NAMESPACE_OR_PARENT: Final = 0x7E020000 | 0x00008000
_AF_UNIX: Final = 1
_DATAGRAM: Final = 2
"""This bit is set in the types of all sockets that may send to others than their peer."""
_F_SETOWN, _F_SETOWN_EX, _FIOSETOWN, _SIOCSPGRP, _TIOCSTI = 8, 15, 0x8901, 0x8902, 0x5412
_PREALLOCATING: Final = (0x40305828, 0x4030582A, 0x40305839)
"""FS_IOC_RESVSP, FS_IOC_RESVSP64 and FS_IOC_ZERO_RANGE."""

_SET_MODE_FILTER: Final = 1
_SPEC_ALLOW: Final = 1 << 2
"""Keep the filter from switching on slow mitigations: they would be timed."""
_LOAD, _EQUAL, _ABOVE, _ANY_BIT, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_ALLOW: Final = 0x7FFF0000
_ERRNO: Final = 0x00050000
_X32: Final = 0x40000000

LABEL: Final = resource.RLIMIT_MSGQUEUE
"""The resource limit that labels a runner's processes: the filter keeps it from being changed."""

_libc = ctypes.CDLL(None, use_errno=True)
_libc.syscall.restype = ctypes.c_long


def denied() -> dict[str, int]:
    """Return the calls that a filter refuses whatever their arguments, with this machine's numbers."""
    numbers = {name: call[_COLUMN[platform.machine()]] for name, call in _DENIED.items()}
    return {name: number for name, number in numbers.items() if number >= 0}


def supported() -> bool:
    """Say whether there is a filter for this architecture."""
    return platform.machine() in _AUDIT_ARCH


def install(pid: int, own_signals_only: bool) -> None:
    """Filter the calls of this thread and its children; `pid` is this process, as it sees itself.

    With `own_signals_only` it can signal nobody but itself and its group, for kernels whose landlock
    does not see to that. Needs no_new_privs. Raises OSError where the kernel refuses.
    """
    install_program(program(pid, own_signals_only))


def install_program(code: bytes) -> None:
    """Install a finished filter."""
    buffer = ctypes.create_string_buffer(code, len(code))
    filter_program = _Program(len(code) // 8, ctypes.cast(buffer, ctypes.c_void_p))
    number = ctypes.c_long(_SECCOMP[platform.machine()])
    result = _libc.syscall(
        number, _SET_MODE_FILTER, ctypes.c_ulong(_SPEC_ALLOW), ctypes.byref(filter_program)
    )
    if result != 0:
        raise OSError(ctypes.get_errno(), "seccomp(SECCOMP_SET_MODE_FILTER) failed")


class _Program(ctypes.Structure):
    _fields_ = [("length", ctypes.c_ushort), ("filter", ctypes.c_void_p)]


class Assembler:
    """Writes a filter; each rule ends in a return or leaves the call's number in the accumulator."""

    def __init__(self) -> None:
        """Start with the checks of architecture and number."""
        self.machine = platform.machine()
        self._code: list[tuple[int, int, int, int]] = [
            (_LOAD, 0, 0, 4),
            (_EQUAL, 1, 0, _AUDIT_ARCH[self.machine]),
            (_RETURN, 0, 0, _ERRNO | errno.ENOSYS),
            (_LOAD, 0, 0, 0),
            (_ABOVE, 0, 1, _X32),
            (_RETURN, 0, 0, _ERRNO | errno.ENOSYS),
        ]

    def answer(self, call: tuple[int, int], error: int) -> None:
        """Answer a call with an error; 0 says that it worked, though nothing was done."""
        number = call[_COLUMN[self.machine]]
        if number >= 0:
            self._code += [(_EQUAL, 0, 1, number), (_RETURN, 0, 0, _ERRNO | error)]

    def unless(self, call: tuple[int, int], argument: int, allowed: tuple[int, ...]) -> None:
        """Refuse a call whose argument is none of `allowed`."""
        tests: list[tuple[int, int, int, int]] = [
            (_EQUAL, len(allowed) - index, 0, value) for index, value in enumerate(allowed)
        ]
        self._block(call, argument, [*tests, (_RETURN, 0, 0, _ERRNO | errno.EPERM)])

    def where(self, call: tuple[int, int], argument: int, refused: tuple[int, ...]) -> None:
        """Refuse a call whose argument is one of `refused`."""
        body: list[tuple[int, int, int, int]] = []
        for value in refused:
            body += [(_EQUAL, 0, 1, value), (_RETURN, 0, 0, _ERRNO | errno.EPERM)]
        self._block(call, argument, body)

    def with_bits(self, call: tuple[int, int], argument: int, bits: int) -> None:
        """Refuse a call whose argument has any of `bits`."""
        body = [(_ANY_BIT, 0, 1, bits), (_RETURN, 0, 0, _ERRNO | errno.EPERM)]
        self._block(call, argument, body)

    def finish(self) -> bytes:
        """Allow the rest and return the filter."""
        code = [*self._code, (_RETURN, 0, 0, _ALLOW)]
        return b"".join(struct.pack("<HBBI", *one) for one in code)

    def _block(
        self, call: tuple[int, int], argument: int, body: list[tuple[int, int, int, int]]
    ) -> None:
        number = call[_COLUMN[self.machine]]
        if number < 0:
            return
        # Only the low half: every argument looked at is an int or smaller.
        load = (_LOAD, 0, 0, 16 + 8 * argument)
        # The accumulator holds the number again afterwards, for several rules on one call.
        body = [load, *body, (_LOAD, 0, 0, 0)]
        self._code += [(_EQUAL, 0, len(body), number), *body]


def program(pid: int, own_signals_only: bool) -> bytes:
    """Return the filter of a runner."""
    code = Assembler()
    for call in _DENIED.values():
        code.answer(call, errno.EPERM)
    # The C library then uses clone, whose flags a filter can read.
    code.answer(_CLONE3, errno.ENOSYS)
    code.with_bits(_CLONE, 0, _NEW_NAMESPACE_OR_PARENT)
    code.unless(_SOCKET, 0, (_AF_UNIX,))
    for call in (_SOCKET, _SOCKETPAIR):
        code.with_bits(call, 1, _DATAGRAM)
    # Cores are given from outside: an honest kernel that pins itself goes on, where it is.
    code.answer(_SCHED_SETAFFINITY, 0)
    code.unless(_PRLIMIT, 0, (0, pid))
    code.where(_PRLIMIT, 1, (LABEL,))
    code.where(_SETRLIMIT, 0, (LABEL,))
    code.where(_IOCTL, 1, (_TIOCSTI, _FIOSETOWN, _SIOCSPGRP))
    # It takes a disk in an instant, beyond a file's end even past the limit on its size. The C library
    # and linkers then do without.
    code.answer(_FALLOCATE, errno.EOPNOTSUPP)
    code.where(_IOCTL, 1, _PREALLOCATING)
    # Landlock does not know them, and the folders of the other arm have the same owner. Honest code
    # that copies a file with its mode and times goes on.
    for call in _METADATA.values():
        code.answer(call, 0)
    if own_signals_only:
        for call in _SIGNALS.values():
            code.unless(call, 0, (0, pid))
        code.answer(_PIDFD_SEND_SIGNAL, errno.EPERM)
        code.where(_FCNTL, 1, (_F_SETOWN, _F_SETOWN_EX))
    return code.finish()
