"""Landlock by its raw system calls: what this process and its children may still reach.

A domain is a ratchet: it holds for the calling thread, what it forks and what it executes, and can
only be narrowed. Standard library only.
"""

import ctypes
import os
import stat
from collections.abc import Iterable
from contextlib import suppress
from typing import Final

# The same numbers on every architecture.
_CREATE_RULESET: Final = 444
_ADD_RULE: Final = 445
_RESTRICT_SELF: Final = 446
_VERSION: Final = 1
_PATH_BENEATH: Final = 1
_PR_SET_NO_NEW_PRIVS: Final = 38

_EXECUTE, _WRITE_FILE, _READ_FILE, _READ_DIR = 1 << 0, 1 << 1, 1 << 2, 1 << 3
_MAKE_DEVICES: Final = 1 << 6 | 1 << 11
_REFER, _TRUNCATE, _IOCTL_DEV = 1 << 13, 1 << 14, 1 << 15
_OF_FILES: Final = _EXECUTE | _WRITE_FILE | _READ_FILE | _TRUNCATE | _IOCTL_DEV
_READ: Final = _EXECUTE | _READ_FILE | _READ_DIR
_NEWEST: Final = {1: (1 << 13) - 1, 2: _REFER, 3: _TRUNCATE, 5: _IOCTL_DEV}
"""Rights by the ABI that brought them."""
_NET_ABI, _SCOPE_ABI = 4, 6
_ALL_NET: Final = 1 << 0 | 1 << 1
_ALL_SCOPES: Final = 1 << 0 | 1 << 1

SIGNAL_SCOPE_ABI: Final = _SCOPE_ABI
"""From this ABI on a domain cannot send signals out of itself."""

_libc = ctypes.CDLL(None, use_errno=True)
_libc.syscall.restype = ctypes.c_long


class _RulesetAttr(ctypes.Structure):
    _fields_ = [("fs", ctypes.c_uint64), ("net", ctypes.c_uint64), ("scoped", ctypes.c_uint64)]


class _PathBeneath(ctypes.Structure):
    _pack_ = 1
    _layout_ = "ms"
    _fields_ = [("allowed", ctypes.c_uint64), ("parent_fd", ctypes.c_int32)]


def abi() -> int:
    """Return the kernel's landlock ABI, 0 where it has none or a filter hides it."""
    version: int = _libc.syscall(ctypes.c_long(_CREATE_RULESET), None, ctypes.c_size_t(0), _VERSION)
    return max(version, 0)


def no_new_privileges() -> None:
    """Make set-user-ID programs powerless for this process and its children."""
    if _libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_NO_NEW_PRIVS) failed")


def restrict(readable: Iterable[str], writable: Iterable[str], devices: Iterable[str] = ()) -> None:
    """Enter a domain: read and execute below `readable`, everything but devices below `writable`,
    read and write the files `devices`; no TCP, and no signal or abstract socket out of the domain.

    Paths that do not exist are left out. Raises OSError where the kernel refuses.
    """
    version = abi()
    every = 0
    for since, rights in _NEWEST.items():
        every |= rights if version >= since else 0
    attr = _RulesetAttr(every, _ALL_NET, _ALL_SCOPES)
    size = 24 if version >= _SCOPE_ABI else 16 if version >= _NET_ABI else 8
    ruleset = _call(_CREATE_RULESET, ctypes.byref(attr), ctypes.c_size_t(size), 0)
    try:
        for path in readable:
            _allow(ruleset, path, _READ & every)
        for path in writable:
            _allow(ruleset, path, every & ~(_MAKE_DEVICES | _IOCTL_DEV))
        for path in devices:
            _allow(ruleset, path, (_READ_FILE | _WRITE_FILE | _TRUNCATE | _IOCTL_DEV) & every)
        no_new_privileges()
        _call(_RESTRICT_SELF, ruleset, 0)
    finally:
        os.close(ruleset)


def _allow(ruleset: int, path: str, rights: int) -> None:
    with suppress(FileNotFoundError):
        fd = os.open(path, os.O_PATH | os.O_CLOEXEC)
        try:
            if not stat.S_ISDIR(os.fstat(fd).st_mode):
                rights &= _OF_FILES
            rule = _PathBeneath(rights, fd)
            _call(_ADD_RULE, ruleset, _PATH_BENEATH, ctypes.byref(rule), 0)
        finally:
            os.close(fd)


def _call(number: int, *args: object) -> int:
    passed = [ctypes.c_long(arg) if isinstance(arg, int) else arg for arg in args]
    result: int = _libc.syscall(ctypes.c_long(number), *passed)
    if result < 0:
        raise OSError(ctypes.get_errno(), f"landlock: {os.strerror(ctypes.get_errno())}")
    return result
