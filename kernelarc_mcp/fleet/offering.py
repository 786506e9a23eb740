"""``python -I -m kernelarc_mcp.fleet.offering``: offer this host's devices for as long as the process lives.

Its actors are its own: Ray ends them with it, and starts them again when they die before it.
"""

import argparse
import asyncio
import logging
import os
import signal
import sys
import time
import uuid
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import ray
from ray.exceptions import RayActorError, RayError
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from kernelarc_guard.built_with import BUILDER
from kernelarc_mcp.fleet.building import slot_cores
from kernelarc_mcp.fleet.choice import Device
from kernelarc_mcp.fleet.core_shares import core_shares
from kernelarc_mcp.fleet.device import DeviceActor, Offer
from kernelarc_mcp.fleet.link import Address, ClusterLost, Link, first_of
from kernelarc_mcp.fleet.slot import BuilderActor, SlotOffer

LOST: Final = 3
"""Exit status where the cluster was lost: worth trying again."""
WRONG: Final = 4
"""Exit status where trying again would not help."""
_BEAT_SECONDS: Final = 2.0
_STATE_SECONDS: Final = 10.0
_AGAIN_SECONDS: Final = 1.0
_DEAD_SECONDS: Final = 60.0
"""How long a device may be without an actor before its host starts all anew."""
_FIRST_SECONDS: Final = 180.0
_KEPT: Final = ("OMP_NUM_THREADS",)
"""Variables that Ray sets for its workers and that a guard must find as they are on its host."""


class Wrong(Exception):
    """A device cannot be offered, now or later; the message says why."""


class Offering:
    """One device or build slot: its actor, and its signs of life."""

    def __init__(self, link: Link, offer: Offer | SlotOffer, resource: str) -> None:
        """Offer it on the node that has `resource`, or on this driver's own where that is empty."""
        self._link = link
        self._offer = offer
        self._resource = resource
        self._actor: Any = None
        self._life = uuid.uuid4().hex
        self._signs = 0

    async def start(self) -> None:
        """Start the actor; one of that name which is just ending is waited for."""
        until = time.monotonic() + _DEAD_SECONDS
        told = False
        while self._actor is None:
            try:
                self._actor = self._created()
            except ValueError as error:
                if time.monotonic() > until:
                    raise Wrong(
                        f"{self._offer.name} is offered already; give this host another --name"
                    ) from error
                if not told:
                    told = True
                    print(
                        f"{self._offer.name} is offered already, by another host of that name or one"
                        f" that is just ending; waiting up to {_DEAD_SECONDS:g} s for it to be free",
                        flush=True,
                    )
                await asyncio.sleep(_AGAIN_SECONDS)

    async def tend(self) -> None:
        """Tell the broker every two seconds that the device is there, until cancelled."""
        heard, known = time.monotonic(), False
        while True:
            try:
                async with asyncio.timeout(_STATE_SECONDS if known else _FIRST_SECONDS):
                    device, busy = await self._actor.state.remote()
            except (RayActorError, TimeoutError) as error:
                if time.monotonic() - heard > _DEAD_SECONDS + (0 if known else _FIRST_SECONDS):
                    raise ClusterLost(
                        f"{self._offer.name} has no actor any more: {error}"
                    ) from error
            except RayError as error:
                cause = getattr(error, "cause", None)
                if not isinstance(cause, RuntimeError):
                    raise ClusterLost(f"{self._offer.name}: {error}") from error
                raise Wrong(f"{self._offer.name}: {cause}") from error
            else:
                heard = time.monotonic()
                if not known:
                    self._announce(device)
                known = True
                self._signs += 1
                if ended := await self._link.call("beat", device, busy, self._life, self._signs):
                    # Where it does not come through it is told again with the next sign of life.
                    with suppress(RayError, TimeoutError):
                        async with asyncio.timeout(_STATE_SECONDS):
                            await self._actor.cancel.remote(ended)
            await asyncio.sleep(_BEAT_SECONDS)

    async def withdraw(self) -> None:
        """Take the device back."""
        await self._link.call("withdraw_device", self._offer.name, self._life, seconds=2.0)

    def _created(self) -> Any:
        place: dict[str, Any] = {"resources": {self._resource: 0.001}}
        if not self._resource:
            here = ray.get_runtime_context().get_node_id()
            strategy = NodeAffinitySchedulingStrategy(here, soft=False)
            place = {"scheduling_strategy": strategy}
        slot = isinstance(self._offer, SlotOffer)
        return (
            ray.remote(BuilderActor if slot else DeviceActor)
            .options(
                name=self._offer.name,
                namespace=self._link.namespace,
                num_cpus=1 if slot else 0,
                num_gpus=1 if self._offer.place.startswith("cuda") else 0,
                max_restarts=-1,
                max_task_retries=0,
                **place,
            )
            .remote(self._offer)
        )

    def _announce(self, device: Device) -> None:
        what = "builds" if device.kind == BUILDER else device.unit
        print(f"offered: {device.name}, {device.model} ({what})", flush=True)


async def _main(options: argparse.Namespace) -> None:
    link = Link(Address.of(options.address), options.namespace)
    await link.connect()
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    kept = {name: os.environ.get(name, "") for name in _KEPT}
    offerings = [Offering(link, offer, options.resource) for offer in _offers(options, kept)]
    async with asyncio.TaskGroup() as group:
        for one in offerings:
            await one.start()
        tending = [group.create_task(one.tend()) for one in offerings]
        await stop.wait()
        for one in offerings:
            await one.withdraw()
        for task in tending:
            task.cancel()


def _offers(options: argparse.Namespace, kept: dict[str, str]) -> list[Offer | SlotOffer]:
    """Return the host's devices, which have one cache of builds together, and its build slots."""
    labels = _labels(options.cpu, options.gpus)
    shares = core_shares(os.sched_getaffinity(0), len(labels))
    folder = Path(options.folder)
    devices = [
        Offer(
            name=f"{options.name}:{label}",
            host=options.name,
            place=place,
            guard_python=options.guard_python,
            folder=folder / label,
            cache=folder / "cache",
            environment=kept,
            cores=cores,
        )
        for (label, place), cores in zip(labels, shares, strict=True)
    ]
    return [*devices, *_slots(options, kept, shares)]


def _labels(cpu: bool, gpus: int) -> list[tuple[str, str]]:
    """Return what the devices are called here, each with its place as the guard knows it."""
    return [("cpu", "cpu")] * cpu + [(f"gpu{number}", "cuda:0") for number in range(gpus)]


def _slots(
    options: argparse.Namespace, kept: dict[str, str], shares: list[tuple[int, ...]]
) -> list[SlotOffer]:
    """Return the build slots; on a host with devices they keep to cores on which nothing is timed."""
    cores, threads = slot_cores([share or sorted(os.sched_getaffinity(0)) for share in shares])
    if options.builders and shares and not cores:
        raise Wrong("this host has too few cores to build beside its devices: offer no builders")
    return [
        SlotOffer(
            name=f"{options.name}:{BUILDER}{number}",
            host=options.name,
            guard_python=options.guard_python,
            folder=Path(options.folder) / "builders",
            environment=kept,
            cores=cores,
            threads=threads,
        )
        for number in range(options.builders)
    ]


def main() -> None:
    """Offer devices until SIGTERM, or until the cluster is lost."""
    parser = argparse.ArgumentParser(prog="kernelarc_mcp.fleet.offering")
    parser.add_argument("--address", required=True)
    parser.add_argument("--namespace", required=True)
    parser.add_argument("--name", required=True)
    parser.add_argument("--cpu", action="store_true")
    parser.add_argument("--gpus", type=int, default=0)
    parser.add_argument("--builders", type=int, default=0)
    parser.add_argument("--guard-python", required=True)
    parser.add_argument("--folder", required=True)
    parser.add_argument(
        "--resource", default="", help="What only the node has that they belong to."
    )
    options = parser.parse_args()
    logging.basicConfig(level=logging.WARNING, stream=sys.stderr, format="worker: %(message)s")
    status = 0
    try:
        asyncio.run(_main(options))
    except (ClusterLost, Wrong, BaseExceptionGroup) as error:
        told = first_of(error, Wrong) or first_of(error, ClusterLost)
        if told is None:
            raise
        print(f"worker: {told}", file=sys.stderr, flush=True)
        status = WRONG if isinstance(told, Wrong) else LOST
    sys.stdout.flush()
    # Ray's own threads have nothing left to do for us.
    os._exit(status)


if __name__ == "__main__":
    main()
