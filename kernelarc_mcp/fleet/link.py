"""The way into a Ray cluster: connecting, and calling the broker, which is made where there is none."""

import asyncio
import logging
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

import ray
from ray.exceptions import GetTimeoutError, RayActorError, RayError

from kernelarc_mcp.fleet.broker import Broker

NAMESPACE: Final = "kernelarc"
DEFAULT_PORT: Final = 6379
PATIENCE: Final = 15.0
"""Seconds without a word from the cluster after which it counts as lost."""
_BROKER: Final = "broker"
_PROBE_SECONDS: Final = 3.0
_AGAIN_SECONDS: Final = 0.5

_E = TypeVar("_E", bound=BaseException)
_LOG: Final = logging.getLogger(__name__)


class ClusterLost(Exception):
    """The cluster cannot be joined, or was lost; the message says which and what to do."""


@dataclass(frozen=True)
class Address:
    """Where a cluster's head listens."""

    host: str
    port: int

    @classmethod
    def of(cls, text: str) -> "Address":
        """Read HOST[:PORT], with or without `ray://`; ValueError where it is something else."""
        host, colon, port = text.removeprefix("ray://").rpartition(":")
        if not colon:
            host, port = port, str(DEFAULT_PORT)
        if not host or not port.isdecimal() or not 0 < int(port) < 65536:
            raise ValueError(f"{text!r}: expected HOST[:PORT] of the Ray head")
        return cls(host, int(port))

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"

    @property
    def silent(self) -> str:
        """Return the words for a head that nobody hears of."""
        return f"the Ray head at {self} does not answer"

    async def answers(self) -> bool:
        """Say whether somebody listens there."""
        try:
            async with asyncio.timeout(_PROBE_SECONDS):
                _, writer = await asyncio.open_connection(self.host, self.port)
        except (OSError, TimeoutError):
            return False
        writer.close()
        return True

    async def wait(self, seconds: float, waiting: Callable[[], None] = lambda: None) -> None:
        """Return when somebody listens there; ClusterLost after `seconds` in which nobody did."""
        until = time.monotonic() + seconds
        while not await self.answers():
            waiting()
            if time.monotonic() >= until:
                raise ClusterLost(self.silent)
            await asyncio.sleep(_AGAIN_SECONDS)


@dataclass
class Link:
    """A driver's connection to a cluster."""

    address: Address
    namespace: str = NAMESPACE
    patience: float = PATIENCE
    _handle: Any = field(default=None, init=False)
    _lost: str = field(default="", init=False)

    async def connect(self) -> None:
        """Join the cluster as a driver, by a Ray node of this host; ClusterLost where none lets it."""
        try:
            # In the main thread: Ray sets its handlers of signals there.
            ray.init(
                address=str(self.address),
                namespace=self.namespace,
                log_to_driver=False,
                configure_logging=False,
            )
        except (RayError, OSError, RuntimeError, ValueError) as error:
            first = str(error).strip().partition("\n")[0]
            raise ClusterLost(f"cannot join the Ray cluster at {self.address}: {first}") from error

    async def call(self, method: str, *arguments: object, seconds: float = 10.0) -> Any:
        """Call a method of the broker; ClusterLost where the cluster is silent for too long.

        Once that is so it stays so: nobody else waits for what is lost.
        """
        if self._lost:
            raise ClusterLost(self._lost)
        try:
            return await self._call(method, arguments, seconds)
        except ClusterLost as error:
            self._lost = str(error)
            raise

    async def _call(self, method: str, arguments: tuple[object, ...], seconds: float) -> Any:
        until = time.monotonic() + max(self.patience, seconds)
        while True:
            try:
                async with asyncio.timeout(seconds):
                    if self._handle is None:
                        self._handle = await asyncio.to_thread(_broker, self.namespace)
                    return await getattr(self._handle, method).remote(*arguments)
            except (RayActorError, GetTimeoutError, TimeoutError) as error:
                self._handle = None  # one that lives may have taken its place
                if time.monotonic() >= until:
                    raise ClusterLost(f"the fleet's broker cannot be reached: {error}") from error
                _LOG.warning("the fleet's broker does not answer (%s)", type(error).__name__)
                await self._head(until)
            except RayError as error:
                first = str(error).partition("\n")[0]
                raise ClusterLost(f"the Ray cluster is lost: {first}") from error

    async def _head(self, until: float) -> None:
        """Wait a moment for the head, so that its loss is told as what it is."""
        await self.address.wait(max(0.0, until - time.monotonic()))
        await asyncio.sleep(_AGAIN_SECONDS)


def _broker(namespace: str) -> Any:
    """Return the cluster's broker; it lives on the head, as long as that does."""
    return (
        ray.remote(Broker)
        .options(
            name=_BROKER,
            namespace=namespace,
            get_if_exists=True,
            lifetime="detached",
            num_cpus=0,
            max_restarts=-1,
            # The resource that Ray gives to the head alone.
            resources={"node:__internal_head__": 0.001},
        )
        .remote()
    )


def first_of(error: BaseException, kind: type[_E]) -> _E | None:
    """Return the first exception of a kind that an error is or holds, None where there is none."""
    if isinstance(error, kind):
        return error
    held = error.exceptions if isinstance(error, BaseExceptionGroup) else ()
    return next((found for one in held if (found := first_of(one, kind)) is not None), None)
