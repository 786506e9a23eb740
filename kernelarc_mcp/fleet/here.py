"""Is a host this one, and is it a Ray node already? Without Ray, which takes a minute to say no."""

import socket
from contextlib import suppress
from pathlib import Path


def is_here(host: str) -> bool:
    """Say whether a name or an address is of this machine."""
    try:
        told = socket.getaddrinfo(host, 0, type=socket.SOCK_STREAM)
    except OSError:
        return False
    for family, kind, protocol, _, place in told:
        # Only addresses of this machine can be bound.
        with suppress(OSError), socket.socket(family, kind, protocol) as one:
            one.bind(place)
            return True
    return False


def has_node() -> bool:
    """Say whether a Ray node runs on this machine, as far as its processes can be seen."""
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            with suppress(OSError):
                if (entry / "comm").read_text().strip() == "raylet":
                    return True
    return False
