"""A build slot of a host: the actor that owns one process that builds. Imports no ray.

It takes one order at a time, whoever asks, and ends what it does when it is told so. What it has built it
hands over; what failed leaves nothing.
"""

import asyncio
import os
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, Literal

from kernelarc_guard.build_slot import ON, THREADS
from kernelarc_guard.built_with import BUILDER
from kernelarc_guard.entries import Artefact, taken
from kernelarc_guard.prepare import BuildEnd, BuildOrder
from kernelarc_guard.sandbox import ALLOW_UNSANDBOXED
from kernelarc_mcp.fleet.choice import Device
from kernelarc_mcp.fleet.identity import identified, take_environment
from kernelarc_mcp.host.guard_client import UNSANDBOXED_VARIABLE

SIGN_SECONDS: Final = 1.0
"""Between two signs of life of one build."""
_GRACE_SECONDS: Final = 90.0
"""How long after a build's own deadline its process may still take to say so."""


@dataclass(frozen=True)
class SlotOffer:
    """What a host offers as one build slot."""

    name: str
    host: str
    guard_python: str
    folder: Path
    """With the host's cache of builds, which all its slots share, and what their processes say."""
    environment: dict[str, str]
    """As of a device."""
    cores: tuple[int, ...] = ()
    """Where it builds; empty: anywhere, for nothing is timed on this host."""
    threads: int = 0
    """With `cores`: how many threads the runners may have beside which it builds."""
    place: str = BUILDER


@dataclass(frozen=True)
class BuildSaid:
    """One thing that a slot says about an order; what is no sign of life is the last."""

    kind: Literal["sign", "built", "failed", "broken", "busy"]
    """`broken`: no process starts there. `busy`: it works for another."""
    why: str = ""
    artefact: Artefact | None = None
    """Of `built`."""
    seconds: float = 0.0
    """That this took."""


class BuildProcess:
    """The process behind a slot, started when it is first needed and again after it ended."""

    def __init__(self, offer: SlotOffer) -> None:
        """Start nothing yet."""
        self._command = [offer.guard_python, "-I", "-m", "kernelarc_guard.build_slot"]
        if offer.cores:
            self._command += [ON, ",".join(map(str, offer.cores)), THREADS, str(offer.threads)]
        if os.environ.get(UNSANDBOXED_VARIABLE) == "1":
            self._command.append(ALLOW_UNSANDBOXED)
        self._log = offer.folder / "builders.log"
        self._process: asyncio.subprocess.Process | None = None

    async def ask(self, order: BuildOrder) -> BuildEnd:
        """Return what came of an order; OSError where no process starts.

        Cancelled, or where the process says nothing long after the build's deadline, it is ended.
        """
        process = self._process = await self._running()
        assert process.stdin is not None and process.stdout is not None
        end: BuildEnd | None = None
        try:
            async with asyncio.timeout(order.request.schedule.build_seconds + _GRACE_SECONDS):
                process.stdin.write(order.model_dump_json().encode() + b"\n")
                end = BuildEnd.model_validate_json(await process.stdout.readline())
        except TimeoutError:
            return BuildEnd(why="what builds says nothing any more")
        except (ConnectionError, ValueError):
            return BuildEnd(why="what builds ended, or said what is no answer")
        finally:
            if end is None:
                await self.end()
        return end

    async def end(self) -> None:
        """End the process: all its children go with it when its stdin closes, which is waited for."""
        process, self._process = self._process, None
        if process is None or process.returncode is not None:
            return
        assert process.stdin is not None
        process.stdin.close()
        try:
            async with asyncio.timeout(2.0):
                await process.wait()
        except TimeoutError:
            process.kill()
            await process.wait()

    async def _running(self) -> asyncio.subprocess.Process:
        if self._process is not None and self._process.returncode is None:
            return self._process
        with self._log.open("ab") as log:
            return await asyncio.create_subprocess_exec(
                *self._command,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=log,
            )


class BuilderActor:
    """Owns one build slot."""

    def __init__(self, offer: SlotOffer) -> None:
        """Offer a slot; its process starts with the first order."""
        self._offer = offer
        take_environment(offer.environment)
        offer.folder.mkdir(parents=True, exist_ok=True)
        self._process = BuildProcess(offer)
        self._device: Device | None = None
        self._key = ""
        self._work: asyncio.Task[BuildSaid] | None = None

    async def state(self) -> tuple[Device, str]:
        """Return what the slot is and the key of the order it works on, or an empty one."""
        if self._device is None:
            offer = self._offer
            known = await identified(offer.guard_python, BUILDER, offer.name, offer.host)
            # All by which it is chosen is in one place.
            self._device = replace(known, toolchain={**known.toolchain, **known.built_with})
        return self._device, self._key

    async def build(self, key: str, order: BuildOrder) -> AsyncIterator[BuildSaid]:
        """Yield signs of life while an order is worked on, then what came of it."""
        if self._key:
            yield BuildSaid("busy", f"{self._offer.name} works on another order")
            return
        self._key = key
        self._work = asyncio.create_task(self._build(order))
        try:
            while not self._work.done():
                yield BuildSaid("sign")
                await asyncio.wait([self._work], timeout=SIGN_SECONDS)
            if self._work.cancelled():
                yield BuildSaid("failed", "it was taken back")
            else:
                yield self._work.result()
        finally:
            await self._stop()
            self._key, self._work = "", None

    async def cancel(self, key: str) -> None:
        """End what is done for an order."""
        if key == self._key:
            await self._stop()

    async def _stop(self) -> None:
        if self._work is not None and not self._work.done():
            self._work.cancel()
            await asyncio.wait([self._work])

    async def _build(self, order: BuildOrder) -> BuildSaid:
        cache, began = self._offer.folder / "cache", time.monotonic()
        request = order.request.model_copy(update={"cache_dir": str(cache)})
        try:
            end = await self._process.ask(order.model_copy(update={"request": request}))
        except OSError as error:
            return BuildSaid("broken", f"no process that builds starts: {error}")
        if not end.key:
            return BuildSaid("failed", end.why)
        try:
            solution = request.candidate.digest
            artefact = await asyncio.to_thread(taken, cache, end.key, solution, self._offer.name)
        except (OSError, ValueError) as error:
            return BuildSaid("failed", f"what was built cannot be handed over: {error}")
        return BuildSaid("built", artefact=artefact, seconds=time.monotonic() - began)
