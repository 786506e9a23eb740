"""How a client reaches a campaign: a server process of its own, or the address of a running one."""

import hashlib
import os
import sys
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

from kernelarc_guard.cuda.clocks import LOCK_CLOCKS
from kernelarc_guard.formats.blobs import ROOTS
from kernelarc_mcp.connecting.address import remembered
from kernelarc_mcp.host.guard_client import UNSANDBOXED_VARIABLE
from kernelarc_mcp.launch import AGENT_VARIABLE

SERVER = "kernelarc"
"""The server's name in every client: with a tool's name it stays under the shortest limit, 60."""
TOKEN_VARIABLE = "KERNELARC_TOKEN"
PATH = "/mcp"
DEFAULT_URL = f"http://127.0.0.1:8765{PATH}"
_CARRIED = (
    "KERNELARC_GUARD_PYTHON",
    UNSANDBOXED_VARIABLE,
    LOCK_CLOCKS,
    *ROOTS,
    "XDG_CACHE_HOME",
    "CXX",
    "CUDA_HOME",
    "CUDA_PATH",
    "CUDA_VISIBLE_DEVICES",
    "LD_LIBRARY_PATH",
)
"""Variables that decide how the guard judges; clients hand down hardly more than PATH and HOME."""


@dataclass(frozen=True)
class StdioDoor:
    """The client starts a server process and is the agent named in its environment."""

    command: str
    args: list[str]
    env: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class HttpDoor:
    """The client sends a bearer token, from its environment, to a server that runs already."""

    url: str = DEFAULT_URL
    holder: str = ""
    """Campaign and agent whose token it is, as one word that no other pair shares; empty: not known."""


Door = StdioDoor | HttpDoor


def http_door(url: str, folder: Path, campaign: str, agent: str) -> HttpDoor:
    """Return the door to a server of the campaign in `folder`; an address without a path gets its path.

    A campaign that was last served with others is taken to be where it was then.
    """
    known = remembered(folder)
    address = urlsplit(url or known or DEFAULT_URL)
    if address.path in ("", "/"):
        address = address._replace(path=urlsplit(known).path or PATH)
    where = hashlib.sha256(str(folder.resolve()).encode()).hexdigest()[:6]
    holder = "-".join(part for part in (campaign, agent, where) if part)
    return HttpDoor(address.geturl(), holder)


def stdio_door(folder: Path, agent: str) -> StdioDoor:
    """Return the door of a server process for `agent`, with absolute paths only."""
    carried = {name: os.environ[name] for name in _CARRIED if os.environ.get(name)}
    return StdioDoor(
        command=sys.executable,
        # -P: the client's working directory holds kernels, and one of them may be called numpy.py.
        args=["-P", "-m", "kernelarc_mcp", "serve", str(folder.resolve())],
        env={AGENT_VARIABLE: agent, **carried},
    )
