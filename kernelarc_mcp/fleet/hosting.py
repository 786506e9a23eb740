"""A host in the fleet: its Ray node and what offers its devices, started again until it is stopped. Imports no ray."""

import platform
import subprocess
import sys
import time
import uuid
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from kernelarc_mcp.fleet.node import Node, NodeFailed, NodeOptions
from kernelarc_mcp.fleet.tether import tethered

_LOOK_SECONDS: Final = 0.2
_STOP_SECONDS: Final = 15.0
_AGAIN_SECONDS: Final = 3.0
_TRIES: Final = 3
_WRONG: Final = 4
"""As in `offering`, which imports ray."""


class HostingFailed(Exception):
    """The host cannot join, and trying again would not help."""


@dataclass(frozen=True)
class HostOptions:
    """What a host brings."""

    address: str
    """HOST:PORT of the head, also where it is this host."""
    node: NodeOptions | None
    """None: this host has a Ray node already."""
    name: str
    cpu: bool
    gpus: int
    guard_python: str
    folder: Path
    """For caches and logs of the guards."""
    namespace: str
    builders: int = 0
    """Build slots."""

    @property
    def offers(self) -> bool:
        """Say whether it has devices or build slots to offer."""
        return self.cpu or self.gpus > 0 or self.builders > 0


class Hosting:
    """Keeps a host in the fleet."""

    def __init__(self, options: HostOptions, say: Callable[[str], None]) -> None:
        """What is worth knowing is said by `say`, a line each."""
        self._options = options
        self._say = say
        self._node: Node | None = None
        self._offering: subprocess.Popen[bytes] | None = None

    def run(self, reachable: Callable[[], bool]) -> None:
        """Be in the fleet until an exception (a signal) ends this; HostingFailed where that is no use."""
        again, failures, been_up = False, 0, False
        try:
            while True:
                if again:
                    time.sleep(_AGAIN_SECONDS)
                self._wait(reachable)
                try:
                    self._start()
                except NodeFailed as error:
                    # A busy host may be too slow for Ray's own patience; a wrong option fails each time.
                    failures += 1
                    if failures >= _TRIES and not been_up:
                        raise HostingFailed(str(error)) from error
                    self._say(f"{error}; trying again")
                else:
                    been_up = True
                    self._say(f"{self._watched()}; starting again")
                self._stop()
                again = True
        finally:
            self._stop()

    def _wait(self, reachable: Callable[[], bool]) -> None:
        """Wait for the head, unless it is what is started here."""
        node = self._options.node
        if node is not None and not node.address:
            return
        said = False
        while not reachable():
            if not said:
                self._say(f"waiting for the Ray head at {self._options.address}")
            said = True
            time.sleep(_AGAIN_SECONDS)

    def _start(self) -> None:
        options, resource = self._options, ""
        if options.node is not None:
            resource = f"kernelarc-{uuid.uuid4().hex[:12]}"
            self._node = Node(replace(options.node, resources={resource: 1.0}))
            self._node.start()
            self._say(f"a Ray node is up; {self._head(self._node)}")
        if options.offers:
            self._offering = subprocess.Popen(tethered(self._command(resource)))

    def _head(self, node: Node) -> str:
        """Return where the head is; of this host's, how others join it and who else may reach it."""
        options = self._options
        if options.node is None or options.node.address:
            return f"the head is at {options.address}"
        at = f"{node.ip or platform.node()}:{options.node.port}"
        return (
            f"others join this head with `kernelarc-mcp worker --address {at}`. Its ports are open on all"
            " of this host's networks: keep them private (docs/fleet.md, Trust)"
        )

    def _command(self, resource: str) -> list[str]:
        options = self._options
        return [
            *(sys.executable, "-I", "-m", "kernelarc_mcp.fleet.offering"),
            *("--address", options.address, "--namespace", options.namespace),
            *("--name", options.name, "--guard-python", options.guard_python),
            *("--folder", str(options.folder), "--gpus", str(options.gpus)),
            *("--builders", str(options.builders)),
            *(["--cpu"] if options.cpu else []),
            *(["--resource", resource] if resource else []),
        ]

    def _watched(self) -> str:
        """Wait until a part is gone; return which."""
        while True:
            if self._node is not None and self._node.ended:
                return "the Ray node is gone"
            status = None if self._offering is None else self._offering.poll()
            if status == _WRONG:
                raise HostingFailed("its devices cannot be offered (see above)")
            if status is not None:
                return f"what offers the devices ended with status {status}"
            time.sleep(_LOOK_SECONDS)

    def _stop(self) -> None:
        """End the offering first, so that it can take its devices back."""
        offering, self._offering = self._offering, None
        if offering is not None:
            offering.terminate()
            with suppress(subprocess.TimeoutExpired):
                offering.wait(_STOP_SECONDS)
            offering.kill()
            offering.wait()
        if self._node is not None:
            self._node.stop()
            self._node = None
