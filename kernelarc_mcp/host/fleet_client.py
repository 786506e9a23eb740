"""Talking to the stand-in of a fleet: one process, many requests at once, told apart by their ids.

The wire is `kernelarc_guard.fleet_wire`.
"""

import math
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Final, Self

import anyio
from anyio.abc import Process, TaskGroup
from anyio.streams.buffered import BufferedByteReceiveStream
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from pydantic import ValidationError

from kernelarc_guard.fleet_wire import (
    FROM_FLEET,
    Cancel,
    Capacity,
    FleetDevice,
    FromFleet,
    Hindrance,
    OnModel,
    Placed,
)
from kernelarc_guard.inquiries import Counted, Inquiry, Profiled
from kernelarc_guard.prepare import Prepare
from kernelarc_guard.protocol import Compare, Progress, Refusal, Request, Result
from kernelarc_mcp.host import guard_process
from kernelarc_mcp.host.guard_client import (
    MAX_LINE,
    WAITING,
    DeviceLost,
    GuardDied,
    GuardNotStarted,
    GuardRefused,
    OnProgress,
)

_AT_WORK: Final = ("ready", "busy")
Heard = FromFleet | DeviceLost
Told = MemoryObjectSendStream[Heard]


class _StandIn:
    """One process, from its start to its end."""

    def __init__(self, process: Process) -> None:
        self.process = process
        self.since = time.monotonic()
        self.asked: dict[str, Told] = {}
        """Id -> whom its answers are for."""
        self.outbox, self.sent = anyio.create_memory_object_stream[bytes](math.inf)

    def say(self, line: str) -> None:
        """Send a line when its turn comes: nobody who is cancelled leaves half of one."""
        with suppress(anyio.ClosedResourceError, anyio.BrokenResourceError):
            self.outbox.send_nowait(line.encode() + b"\n")


class FleetClient:
    """A fleet's devices behind one stand-in process: as many lanes as there are of one model."""

    def __init__(
        self,
        command: Sequence[str],
        log: Path | None = None,
        *,
        model: str = "",
        grace: float = 10.0,
        usual: float = 10.0,
    ) -> None:
        """Start `command` when it is first needed; only devices of `model` are lanes.

        Without one there must be one model only. The stand-in's messages go to `log`. That it is silent
        for `usual` seconds after its start is no trouble yet.
        """
        self._command = list(command)
        self._log = log
        self._model = model
        self._grace = grace
        self._usual = usual
        self._group: TaskGroup | None = None
        self._standin: _StandIn | None = None
        self._lost = ""
        """How the last stand-in ended, until somebody was told."""
        self._changed = anyio.Event()
        self._count = 0
        self._told = False
        """The stand-in has said which devices there are."""
        self._hindrance = ""
        """Why it has not, as it or the one before it said."""
        self.devices: list[FleetDevice] = []
        """As the stand-in told them last."""
        self.builders: list[FleetDevice] = []
        """The same of build slots."""

    async def __aenter__(self) -> Self:
        self._group = anyio.create_task_group()
        await self._group.__aenter__()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        assert self._group is not None
        group, self._group = self._group, None
        group.cancel_scope.cancel()
        # Without what ended the block: a group would wrap it.
        await group.__aexit__(None, None, None)
        # Ended here, not lost: whoever enters again is told of no loss.
        self._lost = self._hindrance = ""

    @property
    def pid(self) -> int | None:
        """Return the process id of the stand-in, or None."""
        return None if self._standin is None else self._standin.process.pid

    @property
    def lanes(self) -> int:
        """Return how many devices of the campaign's model are at work."""
        if not self._model and len(self._models()) > 1:
            return 0
        return sum(
            one.state in _AT_WORK and (not self._model or one.model == self._model)
            for one in self.devices
        )

    @property
    def trouble(self) -> str:
        """Return why devices are no lanes; empty where all are."""
        if not self._model and len(models := self._models()) > 1:
            return f"the fleet has devices of {' and '.join(models)}: the campaign must name one"
        if not self._told:
            return self._hindrance or ("the fleet did not answer yet" if self._is_late else "")
        if not self.devices:
            return "the fleet has no devices"
        why = [
            f"{one.name} on {one.host} is {one.state}: {one.why}"
            for one in self.devices
            if one.state not in _AT_WORK
        ]
        if self._model and self._model not in (models := self._models()):
            others = f", but {', '.join(models)}" if models else " at work"
            why.insert(0, f"the fleet has no {self._model}{others}")
        return "; ".join(why)

    @property
    def words(self) -> str:
        """Return what the fleet has, in a line; empty where nothing is known of it."""
        if not self._told:
            return ""
        told = f"Fleet: {_count(self.devices, 'device')}, {_count(self.builders, 'build slot')}"
        why = dict.fromkeys(
            f"build slots of {one.host} are {one.state}: {one.why}"
            for one in self.builders
            if one.state not in _AT_WORK
        )
        return "; ".join([told, *why]) + "."

    @property
    def _is_late(self) -> bool:
        since = math.inf if self._standin is None else self._standin.since
        return time.monotonic() - since > self._usual

    def _models(self) -> list[str]:
        return sorted({one.model for one in self.devices if one.state in _AT_WORK})

    async def wait_lanes(self, known: int) -> int:
        """As of any executor; DeviceLost where the stand-in ended, and then once."""
        while True:
            lost, self._lost = self._lost, ""
            if lost:
                raise DeviceLost(lost)
            if self._standin is None:
                await self._start()
            if self.lanes != known:
                return self.lanes
            await self._changed.wait()

    async def judge(
        self, request: Request, *, deadline: float, on_progress: OnProgress | None = None
    ) -> Result:
        """As of any guard; the deadline begins when the request is placed on a device."""
        answer = await self._ask(request, deadline, on_progress)
        if not isinstance(answer, Result):
            raise GuardDied(f"answered a {request.op} with what it {answer.event}")
        return answer

    async def inquire(
        self, inquiry: Inquiry, *, deadline: float, on_progress: OnProgress | None = None
    ) -> Counted | Profiled:
        """As of any guard; the deadline begins when the inquiry is placed on a device."""
        answer = await self._ask(inquiry, deadline, on_progress)
        if isinstance(answer, Result):
            raise GuardDied(f"answered a {inquiry.op} with a result")
        return answer

    def reaches(self, model: str) -> bool:
        """Say whether a device of a model is at work, the campaign's own or another."""
        return any(one.model == model and one.state in _AT_WORK for one in self.devices)

    async def judge_on(
        self,
        model: str,
        request: Compare,
        *,
        deadline: float,
        on_placed: Callable[[Placed], None],
    ) -> Result:
        """As `judge`, on a device of another model and after all else that is asked of such."""
        answer = await self._ask(request, deadline, None, model=model, on_placed=on_placed)
        if not isinstance(answer, Result):
            raise GuardDied(f"answered a {request.op} with what it {answer.event}")
        return answer

    @property
    def busy(self) -> bool:
        """Say whether a request is under way: else the next in line is judged at once."""
        return self._standin is not None and bool(self._standin.asked)

    @property
    def in_line(self) -> int:
        """Return how many submissions next in line are worth building: two for whoever builds."""
        slots = sum(one.state in _AT_WORK for one in self.builders)
        return 2 * max(1, slots, 0 if slots else self.lanes)

    async def prepare(self, request: Prepare) -> bool:
        """As of any guard: what comes of it a request may find, whichever device that is placed on."""
        line = request.model_dump_json()
        if self._standin is None or not self.busy or len(line) > MAX_LINE:
            return False
        self._standin.say(line)
        return True

    async def _ask(
        self,
        request: Request | Inquiry,
        deadline: float,
        on_progress: OnProgress | None,
        *,
        model: str = "",
        on_placed: Callable[[Placed], None] | None = None,
    ) -> Result | Counted | Profiled:
        standin = self._standin
        if standin is None:
            raise DeviceLost("the fleet's stand-in is not running")
        self._count += 1
        id = f"{request.id}.{self._count}"
        told, heard = anyio.create_memory_object_stream[Heard](math.inf)
        with told, heard:
            standin.asked[id] = told
            asked: Request | Inquiry | OnModel = request.model_copy(update={"id": id})
            if model and isinstance(asked, Compare):
                asked = OnModel(model=model, request=asked)
            standin.say(asked.model_dump_json())
            answered = False
            try:
                answer = await _answer(heard, deadline, on_progress, on_placed)
                answered = True
            except TimeoutError as error:
                raise GuardDied(f"no answer within {deadline:g} seconds") from error
            finally:
                del standin.asked[id]
                if not answered:
                    standin.say(Cancel(id=id).model_dump_json())
        match answer:
            case DeviceLost():
                raise answer
            case Refusal(code="guard_died"):
                raise GuardDied(answer.error)
            case Refusal(code="device_lost"):
                raise DeviceLost(answer.error)
            case Refusal():
                raise GuardRefused(answer.error, answer.code, answer.lease)
            case _:
                return answer.model_copy(update={"id": request.id})

    async def _start(self) -> None:
        if self._group is None:
            raise RuntimeError("a fleet's client is used inside of `async with`")
        try:
            process = await guard_process.start(self._command)
        except OSError as error:
            raise GuardNotStarted(f"cannot be started ({self._command[0]}): {error}") from error
        self._standin = _StandIn(process)
        self._group.start_soon(self._run, self._standin)

    async def _run(self, standin: _StandIn) -> None:
        """Talk to a stand-in until it ends; whoever still waits is told."""
        why = "was stopped"
        try:
            async with anyio.create_task_group() as group:
                group.start_soon(guard_process.keep_messages, standin.process, self._log)
                group.start_soon(_send, standin)
                why = await self._listen(standin)
                group.cancel_scope.cancel()
        finally:
            self._standin, self.devices, self.builders, self._told = None, [], [], False
            self._lost = self._hindrance or f"the fleet's stand-in is lost: {why}"
            self._hindrance = self._lost
            for told in standin.asked.values():
                told.send_nowait(DeviceLost(self._lost))
            self._tell_change()
            standin.outbox.close()
            standin.sent.close()
            await guard_process.end(standin.process, self._log, self._grace)

    async def _listen(self, standin: _StandIn) -> str:
        """Hand out what the stand-in says; return why that ended."""
        assert standin.process.stdout is not None
        lines = BufferedByteReceiveStream(standin.process.stdout)
        while True:
            try:
                said = FROM_FLEET.validate_json(await lines.receive_until(b"\n", MAX_LINE))
            except (anyio.IncompleteRead, anyio.EndOfStream):
                return f"its process ended: {await guard_process.how_it_ended(standin.process)}"
            except anyio.DelimiterNotFound:
                return f"an answer is longer than {MAX_LINE >> 20} MiB"
            except ValidationError as error:
                return f"an answer is malformed: {error.errors()[0]['msg']}"
            except (anyio.BrokenResourceError, anyio.ClosedResourceError, OSError) as error:
                return f"its pipe broke: {error}"
            if isinstance(said, Capacity):
                self.devices, self.builders, self._told = said.devices, said.builders, True
                self._hindrance = ""
                self._tell_change()
            elif isinstance(said, Hindrance):
                self._hindrance = said.why
            elif said.id in standin.asked:
                standin.asked[said.id].send_nowait(said)
            elif not self._was_asked(said.id):
                return f"an answer is for {said.id}, which nobody asked"

    def _was_asked(self, id: str) -> bool:
        """Say whether an id can be that of a request whose answer nobody needs any more."""
        number = id.rpartition(".")[2]
        return number.isdecimal() and 1 <= int(number) <= self._count

    def _tell_change(self) -> None:
        changed, self._changed = self._changed, anyio.Event()
        changed.set()


def _count(of: Sequence[FleetDevice], what: str) -> str:
    """Return how many of some things are at work, on how many hosts."""
    hosts = [one.host for one in of if one.state in _AT_WORK]
    if not hosts:
        return f"no {what}s"
    on = f"{len(set(hosts))} host{'s' * (len(set(hosts)) > 1)}"
    return f"{len(hosts)} {what}{'s' * (len(hosts) > 1)} on {on}"


async def _answer(
    heard: MemoryObjectReceiveStream[Heard],
    deadline: float,
    on_progress: OnProgress | None,
    on_placed: Callable[[Placed], None] | None,
) -> Result | Counted | Profiled | Refusal | DeviceLost:
    """Wait for the last word; the deadline stands still while the request waits for a device."""
    with anyio.fail_after(None) as scope:
        while True:
            said = await heard.receive()
            match said:
                case Placed():
                    scope.deadline = anyio.current_time() + deadline
                    if on_placed is not None:
                        on_placed(said)
                case Progress():
                    if said.message == WAITING:
                        scope.deadline = math.inf
                    elif scope.deadline == math.inf:
                        scope.deadline = anyio.current_time() + deadline
                    if on_progress is not None:
                        on_progress(said)
                case Capacity() | Hindrance():
                    pass
                case _:
                    return said


async def _send(standin: _StandIn) -> None:
    assert standin.process.stdin is not None
    with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError, OSError):
        async for line in standin.sent:
            await standin.process.stdin.send(line)
