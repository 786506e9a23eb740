"""Building ahead, the stand-in's side: slots build what is next in line, and who judges it is handed that.

Nothing is answered for it, and nothing depends on it: what failed, was lost or comes too late the judgement
builds itself. Everything here can be lost at any time.
"""

import asyncio
import logging
import time
from collections import OrderedDict
from collections.abc import AsyncIterator, Awaitable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final

from ray.exceptions import RayError, RayTaskError

from kernelarc_guard.entries import Artefact
from kernelarc_guard.inquiries import Inquiry
from kernelarc_guard.prepare import BuildOrder, Prepare
from kernelarc_guard.protocol import Confirm, Request, Screen
from kernelarc_mcp.fleet.actors import Actors
from kernelarc_mcp.fleet.broker import Ending
from kernelarc_mcp.fleet.building import Building
from kernelarc_mcp.fleet.choice import Device
from kernelarc_mcp.fleet.device import solutions_of
from kernelarc_mcp.fleet.link import ClusterLost
from kernelarc_mcp.fleet.session import Session
from kernelarc_mcp.fleet.slot import BuildSaid

MOST_BYTES: Final = 256 << 20
"""Of builds that are kept to be handed over; what was used least recently goes."""
MOST_AT_ONCE: Final = 256
"""Builds that wait for slots or are made: the dispatcher asks for a few per slot."""
SILENCE: Final = 10.0
"""Seconds without a sign of life after which a build counts as lost."""
LEAST_WAIT: Final = 3.0
"""Seconds that a build may always take before it is waited for no longer."""
_BEGIN_SECONDS: Final = 1.0
"""How long a judgement waits for a build to begin where a slot seems to be free."""
_END_SECONDS: Final = 5.0
_ENDINGS: Final[Mapping[str, Ending]] = {
    "built": "answered",
    "failed": "failed",
    "broken": "broken",
    "busy": "busy",
    "lost": "lost",
}
_LOG: Final = logging.getLogger(__name__)


@dataclass
class _UnderWay:
    """A build that waits for a slot or is being made."""

    building: Building
    begun: asyncio.Event = field(default_factory=asyncio.Event)
    since: float = 0.0
    """When it began."""
    task: "asyncio.Task[None] | None" = None


@dataclass
class _Kept:
    """A build that can be handed over."""

    artefact: Artefact
    building: Building
    had_by: set[str] = field(default_factory=set)
    """Hosts whose devices have it: one was handed it, and they have one cache."""


class Builds:
    """What is built ahead for one stand-in."""

    def __init__(self, session: Session, actors: Actors) -> None:
        """Build nothing yet."""
        self._session = session
        self._actors = actors
        self._under_way: dict[str, _UnderWay] = {}
        """Digest of a solution -> its build."""
        self._kept: OrderedDict[str, _Kept] = OrderedDict()
        self._longest = 0.0
        """Seconds that the longest build took, of those that ended."""
        self._told: set[asyncio.Task[None]] = set()

    def offer(self, request: Prepare, line: bytes) -> None:
        """Have what is next in line built: by a slot, or where there are none beside what a device judges."""
        digest = request.candidate.digest
        if digest in self._kept or digest in self._under_way:
            return
        building = self._session.building()
        # What is no binary only guards on one host have from each other (Triton's kernels).
        native = request.candidate.is_native
        if native and building is not None and self._session.has_slots(building):
            if len(self._under_way) < MOST_AT_ONCE:
                order = BuildOrder(request=request, architecture=building.architecture)
                known = self._under_way[digest] = _UnderWay(building)
                known.task = asyncio.create_task(self._build(digest, known, order))
        elif (device := self._session.longest_at_work()) is not None:
            # It is the likeliest to be free next, and then to judge it; if not, another of its host may.
            task = asyncio.create_task(self._pass_on(device, line))
            self._told.add(task)
            task.add_done_callback(self._told.discard)

    async def settled(self, request: "Request | Inquiry") -> None:
        """Wait for a build of a request's candidate that is under way, no longer than such builds take.

        That is as long as the longest of those that ended; never longer than a build may take.
        """
        if not isinstance(request, Screen | Confirm):
            return
        known = self._under_way.get(request.candidate.digest)
        if known is None or known.task is None:
            return
        if not known.begun.is_set():
            if self._session.has_slots(known.building, free=True):
                with suppress(TimeoutError):
                    await asyncio.wait_for(known.begun.wait(), _BEGIN_SECONDS)
            if not known.begun.is_set():
                known.task.cancel()  # the guard builds it at once
                return
        most = request.schedule.build_seconds
        usual = max(LEAST_WAIT, self._longest) if self._longest else most
        left = known.since + min(usual, most) - time.monotonic()
        await asyncio.wait([known.task], timeout=max(0.0, left))

    def handed(self, request: "Request | Inquiry", device: Device) -> list[Artefact]:
        """Return what a device is to be handed with a request: what it does not have and would look for."""
        found = []
        for digest in solutions_of(request):
            kept = self._kept.get(digest)
            if kept is None:
                continue
            self._kept.move_to_end(digest)
            if device.host not in kept.had_by and kept.building.is_for(device):
                found.append(kept.artefact)
        return found

    def had(self, device: Device, handed: Sequence[Artefact]) -> None:
        """Note that a device's host has what it was handed."""
        for artefact in handed:
            if (kept := self._kept.get(artefact.solution)) is not None:
                kept.had_by.add(device.host)

    async def close(self) -> None:
        """End all that is being built."""
        tasks = [one.task for one in self._under_way.values() if one.task is not None]
        for task in [*tasks, *self._told]:
            task.cancel()
        await asyncio.gather(*tasks, *self._told, return_exceptions=True)

    async def _build(self, digest: str, known: _UnderWay, order: BuildOrder) -> None:
        try:
            key, slot = await self._session.place("prepare", frozenset(), known.building.needs)
            ending: Ending = "lost"
            try:
                known.since = time.monotonic()
                known.begun.set()
                said, ending = await self._listen(key, slot, order)
            finally:
                # Also where it was taken back: the slot is free for others.
                await asyncio.shield(self._session.done(key, slot.name, ending))
            self._longest = max(self._longest, said.seconds)
            if said.artefact is not None:
                self._keep(_Kept(said.artefact, known.building))
            elif ending != "failed":
                _LOG.warning("%s did not build ahead: %s", slot.name, said.why)
        except ClusterLost:
            return  # told by whoever follows the session
        finally:
            del self._under_way[digest]

    async def _listen(self, key: str, slot: Device, order: BuildOrder) -> tuple[BuildSaid, Ending]:
        """Return the last that a slot says; `lost` is told as a failure of nobody's."""
        try:
            actor = await self._actors.of(slot.name)
            said = await self._last(actor.build.options(num_returns="streaming").remote(key, order))
            return said, _ENDINGS[said.kind]
        except RayTaskError as error:
            return BuildSaid("failed", str(error.cause)), "failed"
        except (RayError, ValueError, TimeoutError) as error:
            self._actors.forget(slot.name)
            first = str(error).strip().partition("\n")[0] or "nothing is heard of it any more"
            return BuildSaid("failed", f"lost: {first}"), "lost"
        except asyncio.CancelledError:
            await asyncio.shield(self._end(key, slot))
            raise

    async def _last(self, stream: "AsyncIterator[Awaitable[BuildSaid]]") -> BuildSaid:
        while True:
            async with asyncio.timeout(SILENCE):
                try:
                    said = await (await anext(stream))
                except StopAsyncIteration:
                    return BuildSaid("failed", "it ended without an answer")
            if said.kind != "sign":
                return said

    async def _end(self, key: str, slot: Device) -> None:
        """Have a slot end what nobody needs any more."""
        with suppress(RayError, ValueError, TimeoutError):
            async with asyncio.timeout(_END_SECONDS):
                actor = await self._actors.of(slot.name)
                await actor.cancel.remote(key)

    async def _pass_on(self, device: Device, line: bytes) -> None:
        """Have a guard build ahead beside what it judges."""
        with suppress(RayError, ValueError, TimeoutError):
            async with asyncio.timeout(_END_SECONDS):
                actor = await self._actors.of(device.name)
                await actor.prepare.remote(line)

    def _keep(self, kept: _Kept) -> None:
        self._kept[kept.artefact.solution] = kept
        held = sum(one.artefact.size for one in self._kept.values())
        while held > MOST_BYTES:
            _, gone = self._kept.popitem(last=False)
            held -= gone.artefact.size
