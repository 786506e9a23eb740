"""How a client reaches a campaign: a server process of its own, or the address of a running one."""

import hashlib
import os
import shlex
import sys
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

from kernelarc_guard.cuda.clocks import LOCK_CLOCKS
from kernelarc_guard.formats.blobs import ROOTS
from kernelarc_mcp.connecting.address import Served, remembered
from kernelarc_mcp.host.guard_client import UNSANDBOXED_VARIABLE
from kernelarc_mcp.launch import AGENT_VARIABLE
from kernelarc_mcp.several.places import BELOW

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
    folder: Path = Path("DIR")
    """The campaign's directory, for what its user is told to do."""
    noted: Served | None = None
    """What a server noted of this address; None where none did, or the user gave another one."""

    @property
    def start(self) -> str:
        """Say how a server is started that can be reached at this address."""
        address = urlsplit(self.url)
        command = ["kernelarc-mcp", "serve", str(self.folder), "--http", address.netloc]
        alone = f"`{shlex.join(command)}`"
        if self.noted is None:
            return f"start the server with {alone}, or give its address with --url"
        if address.path.startswith(f"{BELOW}/"):
            alone = f"with its other campaigns, or {alone} and connect anew"
        else:
            alone = f"with {alone}"
        return (
            f"it was last served there: start it again {alone}, or give another address with --url"
        )

    @property
    def doubt(self) -> str:
        """Say why nobody may be there, as far as the campaign's directory tells; else nothing."""
        if self.noted is None:
            return f"No server of this campaign has noted the address {self.url}: {self.start}."
        return f"The server at {self.url} has stopped; {self.start}." if self.noted.stopped else ""


Door = StdioDoor | HttpDoor


def http_door(url: str, folder: Path, campaign: str, agent: str) -> HttpDoor:
    """Return the door to a server of the campaign in `folder`; an address without a path gets its path.

    Without one the campaign is taken to be where it was served last.
    """
    noted = remembered(folder)
    known = DEFAULT_URL if noted is None else noted.url
    address = urlsplit(url or known)
    if address.path in ("", "/"):
        address = address._replace(path=urlsplit(known).path)
    where = hashlib.sha256(str(folder.resolve()).encode()).hexdigest()[:6]
    holder = "-".join(part for part in (campaign, agent, where) if part)
    there = noted if address.geturl() == known else None
    return HttpDoor(address.geturl(), holder, folder, there)


def stdio_door(folder: Path, agent: str) -> StdioDoor:
    """Return the door of a server process for `agent`, with absolute paths only."""
    carried = {name: os.environ[name] for name in _CARRIED if os.environ.get(name)}
    return StdioDoor(
        command=sys.executable,
        # -P: the client's working directory holds kernels, and one of them may be called numpy.py.
        args=["-P", "-m", "kernelarc_mcp", "serve", str(folder.resolve())],
        env={AGENT_VARIABLE: agent, **carried},
    )
