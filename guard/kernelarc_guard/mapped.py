"""Where a runner has its inputs mapped, from the kernel's own table of its mappings; imports torch."""

import os

from kernelarc_guard.buffers import BufferSet
from kernelarc_guard.returned import Range


def mapped_inputs(
    table: bytes, sets: list[BufferSet], mutable: frozenset[str]
) -> tuple[list[Range], list[Range]]:
    """Return where immutable and mutable inputs lie in the runner, from the kernel's own table.

    The runner chooses the names in the table: the kernel escapes a newline in them and nothing else,
    and a file may have any name and, on another file system, any number.
    """
    at = {_identity(one.fd): one for one in sets}
    ranges: tuple[list[Range], list[Range]] = ([], [])
    for line in table.split(b"\n"):
        parts = line.split(b" ", 5)
        one = at.get((parts[3], int(parts[4]))) if len(parts) > 4 else None
        if one is None:
            continue
        base = int(parts[0].split(b"-")[0], 16) - int(parts[2], 16)
        for slot in one.inputs.values():
            begin = base + slot.offset
            ranges[slot.name in mutable].append((begin, begin + slot.nbytes))
    return ranges


def _identity(fd: int) -> tuple[bytes, int]:
    """Return a file's device and number as the kernel's table of mappings writes them."""
    status = os.fstat(fd)
    major, minor = os.major(status.st_dev), os.minor(status.st_dev)
    return f"{major:02x}:{minor:02x}".encode(), status.st_ino
