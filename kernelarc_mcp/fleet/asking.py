"""One request's life in the stand-in: placed, asked, and begun anew elsewhere where a machine is lost."""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final

from ray.exceptions import ObjectStoreFullError, RayError, RayTaskError

from kernelarc_guard.fleet_wire import Placed, subject
from kernelarc_guard.inquiries import REPLY, Inquiry
from kernelarc_guard.protocol import Confirm, Refusal, Request, Result, Screen
from kernelarc_mcp.fleet.actors import Actors
from kernelarc_mcp.fleet.builds import Builds
from kernelarc_mcp.fleet.choice import EXTRA, Device
from kernelarc_mcp.fleet.device import Said
from kernelarc_mcp.fleet.session import Session

MAX_LOSSES: Final = 3
"""How often a request begins anew because a machine went away."""
MAX_REFUSALS: Final = 2
"""How often it is tried elsewhere because a guard refused: the request itself may be what cannot be judged."""
_AGAIN_SECONDS: Final = 0.2
_END_SECONDS: Final = 5.0

Line = Callable[[bytes], None]


@dataclass
class Remembered:
    """What requests of one stand-in leave for those that come after them."""

    screened_on: dict[str, str] = field(default_factory=dict)
    """Subject -> device of its screen: its confirmation goes elsewhere."""
    died_on: dict[str, frozenset[str]] = field(default_factory=dict)
    """Subject -> devices whose guard died over it: it is asked again elsewhere, if it is."""


class Asking:
    """Asks one request until it is answered, and says what is heard of it."""

    def __init__(
        self,
        session: Session,
        remembered: Remembered,
        actors: Actors,
        builds: Builds,
        request: "Request | Inquiry",
        line: bytes,
        say: Line,
        model: str = "",
    ) -> None:
        """Ask `request`, which came as `line`; what is heard goes to `say`, line by line.

        With a `model` it is placed on devices of that one, after all else.
        """
        self._session = session
        self._remembered = remembered
        self._actors = actors
        self._builds = builds
        self._request = request
        self._line = line
        self._say = say
        self._needs = session.needs_on(model) if model else None
        self._op = EXTRA if model else request.op
        self._subject, self._part = subject(request.id)
        self._losses = 0
        self._refused: list[str] = []
        self._lost: set[str] = set()

    async def run(self) -> None:
        """Return when the request is answered, however that may be."""
        request, session = self._request, self._session
        if isinstance(request, Screen | Confirm) and request.calibration is not None:
            session.learn(request.calibration.toolchain)
        await self._builds.settled(request)
        blamed: tuple[str, ...] = ()
        while True:
            key, device = await session.place(self._op, self._elsewhere(), self._needs)
            self._tell(Placed(id=request.id, device=device.name, host=device.host))
            said = Said("busy")
            try:
                said = await self._ask(key, device)
                blamed = tuple(self._refused)
                settled = self._settles(said, device)
            finally:
                # Also where it was taken back: the device is free for others.
                await asyncio.shield(self._free(key, device, said, blamed))
            if settled:
                return

    def _elsewhere(self) -> frozenset[str]:
        screened = (
            self._remembered.screened_on.get(self._subject, "") if self._part == "confirm" else ""
        )
        died = self._remembered.died_on.get(self._subject, frozenset())
        return frozenset({screened, *died, *self._lost, *self._refused} - {""})

    async def _ask(self, key: str, device: Device) -> Said:
        """Return the last that a device says; `lost` is told as a death of nobody's guard."""
        asked = asyncio.create_task(self._listen(key, device))
        silent = asyncio.create_task(self._session.silence(key).wait())
        try:
            await asyncio.wait([asked, silent], return_when=asyncio.FIRST_COMPLETED)
            if not asked.done():
                return Said("busy", why="lost: nothing is heard of it any more")
            return asked.result()
        except asyncio.CancelledError:
            await asyncio.shield(self._end(key, device))
            raise
        finally:
            for task in (asked, silent):
                task.cancel()

    async def _listen(self, key: str, device: Device) -> Said:
        try:
            actor = await self._actors.of(device.name)
            handed = self._builds.handed(self._request, device)
            judge = actor.judge.options(num_returns="streaming")
            try:
                stream = judge.remote(key, self._line, handed)
            except ObjectStoreFullError:
                # Of this host's node: nothing about the device, which builds for itself.
                handed = []
                stream = judge.remote(key, self._line)
            last = Said("busy", why="lost: it ended without an answer")
            async for reference in stream:
                last = await reference
                if last.kind == "progress":
                    self._say(last.line)
            if last.kind in ("answer", "refusal"):
                self._builds.had(device, handed)
            return last
        except RayTaskError as error:
            # What the actor's own code raised: a fault of ours, or of its machine.
            return Said("refusal", self._refusal(f"{device.name}: {error.cause}"), str(error.cause))
        except (RayError, ValueError) as error:
            self._actors.forget(device.name)
            first = str(error).strip().partition("\n")[0]
            return Said("busy", why=f"lost: {first}")

    async def _end(self, key: str, device: Device) -> None:
        """Have a device end what nobody needs any more."""
        with suppress(RayError, ValueError, TimeoutError):
            async with asyncio.timeout(_END_SECONDS):
                actor = await self._actors.of(device.name)
                await actor.cancel.remote(key)

    async def _free(self, key: str, device: Device, said: Said, blamed: tuple[str, ...]) -> None:
        session, name = self._session, device.name
        if said.kind == "answer":
            await session.done(key, name, "answered", blamed=blamed)
        elif said.kind in ("refusal", "died"):
            await session.done(key, name, "failed")
        elif said.kind == "broken":
            await session.done(key, name, "broken", f"its guard {said.why}")
        else:
            await session.done(key, name, "lost" if said.why.startswith("lost") else "busy")
            if not said.why.startswith("lost"):
                await asyncio.sleep(_AGAIN_SECONDS)

    def _settles(self, said: Said, device: Device) -> bool:
        """Say what is to be said after one try; False where the request is to be asked again."""
        if said.kind == "answer":
            self._answered(said.line, device)
            return True
        if said.kind == "died":
            before = self._remembered.died_on.get(self._subject, frozenset())
            self._remembered.died_on[self._subject] = before | {device.name}
            self._say(self._refusal(f"on {device.name}: {said.why}", "guard_died"))
            return True
        if said.kind == "refusal":
            return self._refuses(said, device)
        if said.kind == "broken" or said.why.startswith("lost"):
            self._losses += 1
            self._lost.add(device.name)
            if self._losses <= MAX_LOSSES:
                return False
            why = f"{self._losses} devices were lost over it, {device.name} last: {said.why}"
            self._say(self._refusal(why, "device_lost"))
            return True
        return False

    def _refuses(self, said: Said, device: Device) -> bool:
        """Try another device where the machine may be at fault, else pass the refusal on."""
        answer = REPLY.validate_json(said.line)
        assert isinstance(answer, Refusal)
        tried = frozenset({*self._refused, device.name})
        if not answer.code and len(self._refused) < MAX_REFUSALS:
            if self._session.others(tried, self._needs):
                self._refused.append(device.name)
                return False
        self._say(said.line)
        return True

    def _answered(self, line: bytes, device: Device) -> None:
        answer = REPLY.validate_json(line)
        if isinstance(answer, Result):
            if self._part == "screen" and answer.verdict is None:
                self._remembered.screened_on[self._subject] = device.name
            else:
                self._remembered.screened_on.pop(self._subject, None)
                self._remembered.died_on.pop(self._subject, None)
            if answer.op == "calibrate" and answer.calibration is not None:
                self._session.learn(answer.calibration.toolchain)
        self._say(line)

    def _refusal(self, error: str, code: str = "") -> bytes:
        refusal = {"id": self._request.id, "error": error, "code": code}
        return Refusal.model_validate(refusal).model_dump_json().encode()

    def _tell(self, placed: Placed) -> None:
        self._say(placed.model_dump_json().encode())
