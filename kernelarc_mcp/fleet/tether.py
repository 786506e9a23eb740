"""``python -I -m kernelarc_mcp.fleet.tether PARENT COMMAND...``: become a command that ends with its parent."""

import os
import sys
from collections.abc import Sequence

from kernelarc_guard.limits import die_with_parent


def tethered(command: Sequence[str]) -> list[str]:
    """Return the command that runs `command` until this process is gone, however it goes."""
    return [sys.executable, "-I", "-m", "kernelarc_mcp.fleet.tether", str(os.getpid()), *command]


def main() -> None:
    """Ask the kernel for SIGKILL when the parent dies, and become the command."""
    parent, command = int(sys.argv[1]), sys.argv[2:]
    die_with_parent()
    if os.getppid() != parent:
        sys.exit("its parent is gone")
    os.execvp(command[0], command)


if __name__ == "__main__":
    main()
