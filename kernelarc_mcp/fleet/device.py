"""One device of a host: the actor that owns its guard. Imports no ray.

It takes one request at a time, whoever asks, and ends what it does when it is told so.
"""

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal, TypeVar

from kernelarc_guard.entries import Artefact, put
from kernelarc_guard.inquiries import QUESTION, Counted, Inquiry, Profiled, ProfileRequest
from kernelarc_guard.lease import boot_id
from kernelarc_guard.prepare import Prepare
from kernelarc_guard.protocol import (
    DEVICE_HELD,
    BaseRequest,
    Calibrate,
    Lease,
    Progress,
    Refusal,
    Request,
    Result,
)
from kernelarc_guard.recipes import BuildFailed
from kernelarc_guard.solution import Solution
from kernelarc_mcp.fleet.choice import Device
from kernelarc_mcp.fleet.core_shares import keep_to
from kernelarc_mcp.fleet.identity import identified, take_environment
from kernelarc_mcp.host.guard_client import (
    WAITING,
    GuardClient,
    GuardDied,
    GuardNotStarted,
    GuardRefused,
)

DEADLINE: Final = 8 * 3600.0
"""Seconds for one request: who asked has a deadline of its own, and takes back what passes it."""
_SIGNS: Final = 0.2
"""Seconds between two signs of life of one stage."""

_LOG: Final = logging.getLogger(__name__)

Kind = Literal["progress", "answer", "refusal", "died", "broken", "busy"]


_R = TypeVar("_R", bound=BaseRequest)


@dataclass(frozen=True)
class Offer:
    """What a host offers as one device."""

    name: str
    host: str
    place: str
    """The device as its guard knows it: `cpu`, or `cuda:0` where the actor sees one GPU alone."""
    guard_python: str
    folder: Path
    """Where the guard's log is."""
    cache: Path
    """Builds of all devices of the host, on its own disk: what is built ahead for one is found by any."""
    environment: dict[str, str]
    """Variables of the host's own that Ray would have other values for; empty: not set."""
    cores: tuple[int, ...] = ()
    """Its share of the host's cores; empty: all of them."""


@dataclass(frozen=True)
class Said:
    """One thing that a device says about a request."""

    kind: Kind
    line: bytes = b""
    """Of progress, an answer and a refusal: as on the guard's wire."""
    why: str = ""


class DeviceActor:
    """Owns one guard process, which holds the device's lease whenever it measures."""

    def __init__(self, offer: Offer) -> None:
        """Offer a device; its guard starts with the first question about its state."""
        self._offer = offer
        take_environment(offer.environment)
        if offer.cores:
            keep_to(offer.cores)
        offer.folder.mkdir(parents=True, exist_ok=True)
        self._guard = GuardClient(offer.guard_python, offer.folder / "guard.log")
        self._device: Device | None = None
        self._key = ""
        self._work: asyncio.Task[Said] | None = None

    async def state(self) -> tuple[Device, str]:
        """Return what the device is and the key of the request it works on, or an empty one."""
        if self._device is None:
            self._device = await self._identified()
        return self._device, self._key

    async def judge(
        self, key: str, line: bytes, handed: Sequence[Artefact] = ()
    ) -> AsyncIterator[Said]:
        """Yield what the guard says about one request; what is not progress is the last.

        What others have built for it is in the guard's cache before it is asked.
        """
        if self._key:
            yield Said("busy", why=f"{self._offer.name} works on another request")
            return
        self._key = key
        signs: asyncio.Queue[Said] = asyncio.Queue()
        self._work = asyncio.create_task(self._ask(line, handed, signs))
        self._work.add_done_callback(lambda _: signs.put_nowait(Said("busy")))
        try:
            while not self._work.done() or not signs.empty():
                sign = await signs.get()
                if sign.kind == "progress":
                    yield sign
            if self._work.cancelled():
                yield Said("busy", why="it was taken back")
            else:
                yield self._work.result()
        finally:
            await self._stop()
            self._key, self._work = "", None

    async def cancel(self, key: str) -> None:
        """End what is done for a request; its guard cannot be talked to again and starts anew."""
        if key == self._key:
            await self._stop()

    async def prepare(self, line: bytes) -> bool:
        """Have the guard build ahead beside what it works on, where it can; say whether it was told."""
        return await self._guard.prepare(self._here(Prepare.model_validate_json(line)))

    async def _stop(self) -> None:
        if self._work is not None and not self._work.done():
            self._work.cancel()
            await asyncio.wait([self._work])

    def _here(self, request: _R) -> _R:
        """Return a request as it is on this host."""
        here = {"device": self._offer.place, "cache_dir": str(self._offer.cache)}
        if isinstance(request, ProfileRequest):
            here["reports"] = ""  # the folder is another host's
        return request.model_copy(update=here)

    async def _ask(
        self, line: bytes, handed: Sequence[Artefact], signs: "asyncio.Queue[Said]"
    ) -> Said:
        asked = QUESTION.validate_json(line)
        request = self._here(asked)
        if handed:
            await asyncio.to_thread(place, Path(request.cache_dir), handed, solutions_of(asked))
        last, stage = 0.0, ""

        def heard(progress: Progress) -> None:
            nonlocal last, stage
            now = time.monotonic()
            held = progress.message in (WAITING, DEVICE_HELD)
            if held or progress.stage != stage or now - last >= _SIGNS:
                last, stage = now, progress.stage
                signs.put_nowait(Said("progress", progress.model_dump_json().encode()))

        try:
            answer = await self._answer(request, heard)
        except GuardNotStarted as error:
            return Said("broken", why=str(error))
        except GuardDied as error:
            return Said("died", why=str(error))
        except GuardRefused as error:
            told = self._lease(error.lease, asked.device)
            fields = {"id": asked.id, "error": str(error), "code": error.code, "lease": told}
            refusal = Refusal.model_validate(fields)
            return Said("refusal", refusal.model_dump_json().encode(), str(error))
        return Said("answer", self._as_asked(answer, asked).model_dump_json().encode())

    async def _answer(
        self, request: "Request | Inquiry", heard: Any
    ) -> "Result | Counted | Profiled":
        if isinstance(request, Inquiry):
            return await self._guard.inquire(request, deadline=DEADLINE, on_progress=heard)
        return await self._guard.judge(request, deadline=DEADLINE, on_progress=heard)

    def _as_asked(
        self, answer: "Result | Counted | Profiled", asked: "Request | Inquiry"
    ) -> "Result | Counted | Profiled":
        """Return an answer with the device called as whoever asked calls it."""
        changes: dict[str, object] = {"lease": self._lease(answer.lease, asked.device)}
        if isinstance(answer, Result) and answer.calibration is not None:
            given = None if isinstance(asked, Calibrate) else getattr(asked, "calibration", None)
            named = answer.calibration.model_copy(update={"device": asked.device})
            changes["calibration"] = given or named
        return answer.model_copy(update=changes)

    def _lease(self, lease: Lease | None, asked: str) -> Lease | None:
        """Return a lease that says on which machine and on what it was."""
        if lease is None:
            return None
        unit = lease.unit or self._offer.name
        machine = lease.machine or boot_id()
        return lease.model_copy(update={"device": asked, "machine": machine, "unit": unit})

    async def _identified(self) -> Device:
        """Ask the guard's own interpreter what the device is, and start the guard."""
        offer = self._offer
        known = await identified(offer.guard_python, offer.place, offer.name, offer.host)
        await self._guard.start()
        return known


def solutions_of(asked: "Request | Inquiry") -> dict[str, Solution]:
    """Return the solutions that a request is about, by their digests."""
    named = (getattr(asked, name, None) for name in ("candidate", "record", "anchor", "solution"))
    return {one.digest: one for one in named if isinstance(one, Solution)}


def place(cache: Path, handed: Sequence[Artefact], solutions: Mapping[str, Solution]) -> None:
    """Put what others have built into a guard's cache; what cannot be put there the guard builds."""
    for artefact in handed:
        try:
            put(cache, artefact, solutions[artefact.solution])
        except (OSError, ValueError, KeyError, BuildFailed) as error:
            _LOG.warning("what %s built is not used: %s", artefact.by, error)
