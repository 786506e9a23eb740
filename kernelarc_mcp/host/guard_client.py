"""Talking to one guard's process: a JSON request per line in, progress and one answer out."""

import math
import os
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Final, Self

import anyio
from anyio.abc import Process
from anyio.streams.buffered import BufferedByteReceiveStream
from pydantic import ValidationError

from kernelarc_guard.inquiries import REPLY, Counted, Inquiry, Profiled
from kernelarc_guard.prepare import Prepare
from kernelarc_guard.protocol import (
    Lease,
    Progress,
    Refusal,
    Request,
    Result,
)
from kernelarc_mcp.host import guard_process
from kernelarc_mcp.host.guard_process import how_it_ended

MAX_LINE: Final = 64 << 20
"""Bytes of the longest answer that is read."""
WAITING: Final = "waiting for the device"
"""What the guard says before it asks for the device's lock; what it says next, it says holding it."""

UNSANDBOXED_VARIABLE: Final = "KERNELARC_ALLOW_UNSANDBOXED"
"""Set to 1, guards are told to run candidates where there is no sandbox."""

OnProgress = Callable[[Progress], None]


class GuardError(Exception):
    """Base of what can go wrong with the guard itself; never the candidate's fault alone."""

    @property
    def words(self) -> str:
        """Return what happened, to be read within a sentence."""
        return f"the guard {self}"

    @property
    def sentence(self) -> str:
        """Return the same as a sentence of its own."""
        return f"{self.words[:1].upper()}{self.words[1:]}."


class GuardDied(GuardError):
    """The guard's process ended, hung past its deadline or did not keep to the protocol."""

    @property
    def words(self) -> str:
        """Return how it ended."""
        return f"the guard died: {self}"


class GuardNotStarted(GuardDied):
    """The guard's process could not even be started: nothing about a candidate."""

    @property
    def words(self) -> str:
        """Return that it cannot be started, and why."""
        return f"the guard {self}"


class DeviceLost(GuardError):
    """The machine, or the way to it, went away while a guard was at work: nothing about a candidate."""

    @property
    def words(self) -> str:
        """Return what went away: that is no guard's doing."""
        return str(self)


class GuardRefused(GuardError):
    """The guard could not judge: the request, the problem, the record or the machine is at fault."""

    def __init__(self, message: str, code: str = "", lease: Lease | None = None) -> None:
        super().__init__(message)
        self.code = code
        """As in the guard's refusal: `record_failed`, `anchor_failed`, `builder_lost` or empty."""
        self.lease = lease
        """When the device was held for it all the same."""

    @property
    def words(self) -> str:
        """Return what the guard said."""
        return f"the guard refused: {self}"


class GuardClient:
    """One guard process, started when it is first needed and again after it died.

    An async context manager: leaving it ends the process. One request at a time.
    """

    def __init__(self, guard_python: str, log: Path | None = None, grace: float = 10.0) -> None:
        """Use the interpreter `guard_python`; write the guard's messages to `log`."""
        self._command = [guard_python, "-I", "-m", "kernelarc_guard"]
        if os.environ.get(UNSANDBOXED_VARIABLE) == "1":
            self._command.append("--allow-unsandboxed")
        self._log = log
        self._grace = grace
        self._process: Process | None = None
        self._answers: BufferedByteReceiveStream | None = None
        self._lock = anyio.Lock()
        self._sending = anyio.Lock()
        self._under_way = False
        """Has a request been sent whose answer has not come yet?"""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.aclose()

    @property
    def pid(self) -> int | None:
        """Return the process id of the running guard, or None."""
        return None if self._process is None else self._process.pid

    async def start(self) -> None:
        """Start the process now, so that its first request finds it ready; GuardNotStarted."""
        async with self._lock:
            await self._running()

    async def judge(
        self,
        request: Request,
        *,
        deadline: float,
        on_progress: OnProgress | None = None,
    ) -> Result:
        """Send one request and return the guard's result.

        Raises GuardRefused, or GuardDied (then the next request starts a new process). `deadline`
        is in seconds; it stands still while the guard waits for the device, which others may hold
        for as long as they like, and starts anew when the guard holds it.
        """
        answer = await self._ask(request, deadline, on_progress)
        if not isinstance(answer, Result):
            raise GuardDied(f"answered a {request.op} with what it {answer.event}")
        return answer

    async def inquire(
        self,
        inquiry: Inquiry,
        *,
        deadline: float,
        on_progress: OnProgress | None = None,
    ) -> Counted | Profiled:
        """Ask something that decides nothing; otherwise as `judge`."""
        answer = await self._ask(inquiry, deadline, on_progress)
        if isinstance(answer, Result):
            raise GuardDied(f"answered a {inquiry.op} with a result")
        return answer

    in_line = 2
    """So many submissions next in line are prepared: a dismissal may take less time than a build."""

    @property
    def busy(self) -> bool:
        """Say whether a request is under way."""
        return self._under_way

    async def prepare(self, request: Prepare) -> bool:
        """Send what is to be built ahead beside the request that is under way; say whether it was sent.

        Nothing comes of it but a build that a later request may find.
        """
        line = request.model_dump_json().encode() + b"\n"
        if len(line) > MAX_LINE:
            return False
        async with self._sending:
            if not self._under_way or self._process is None or self._process.stdin is None:
                return False
            try:
                await self._process.stdin.send(line)
            except (anyio.BrokenResourceError, anyio.ClosedResourceError, OSError):
                return False  # told by the request that is under way
        return True

    async def _ask(
        self, request: Request | Inquiry, deadline: float, on_progress: OnProgress | None
    ) -> Result | Counted | Profiled:
        async with self._lock:
            finished = False
            try:
                with anyio.fail_after(deadline) as scope:

                    def heard(progress: Progress) -> None:
                        if progress.message == WAITING:
                            scope.deadline = math.inf
                        elif scope.deadline == math.inf:
                            scope.deadline = anyio.current_time() + deadline
                        if on_progress is not None:
                            on_progress(progress)

                    result = await self._exchange(request, heard)
                finished = True
                return result
            except GuardRefused:
                finished = True
                raise
            except TimeoutError as error:
                raise GuardDied(f"no answer within {deadline:g} seconds") from error
            finally:
                if not finished:
                    # What the process is in the middle of is unknown: never talk to it again.
                    # Its stdin closes first, so that it can end its own children.
                    await self._end(min(2.0, self._grace))

    async def aclose(self) -> None:
        """End the guard: close its stdin, and kill it where it does not go; also for who is cancelled."""
        with anyio.CancelScope(shield=True):
            async with self._lock:
                await self._end(self._grace)

    async def _exchange(
        self, request: Request | Inquiry, on_progress: OnProgress
    ) -> Result | Counted | Profiled:
        process = await self._running()
        assert process.stdin is not None and self._answers is not None
        answers = self._answers
        line = request.model_dump_json().encode() + b"\n"
        async with anyio.create_task_group() as group:
            group.start_soon(guard_process.keep_messages, process, self._log)
            try:
                async with self._sending:
                    await process.stdin.send(line)
                self._under_way = True
                result = await self._read(answers, request.id, on_progress)
            except (anyio.BrokenResourceError, anyio.ClosedResourceError, OSError) as error:
                result = GuardDied(f"its pipe broke: {await how_it_ended(process)}: {error}")
            finally:
                self._under_way = False
            group.cancel_scope.cancel()
        if isinstance(result, GuardError):
            raise result
        return result

    async def _read(
        self, answers: BufferedByteReceiveStream, identity: str, on_progress: OnProgress
    ) -> Result | Counted | Profiled | GuardError:
        while True:
            try:
                line = await answers.receive_until(b"\n", MAX_LINE)
            except (anyio.IncompleteRead, anyio.EndOfStream):
                assert self._process is not None
                return GuardDied(f"its process ended: {await how_it_ended(self._process)}")
            except anyio.DelimiterNotFound:
                return GuardDied(f"an answer is longer than {MAX_LINE >> 20} MiB")
            try:
                answer = REPLY.validate_json(line)
            except ValidationError as error:
                return GuardDied(f"an answer is malformed: {error.errors()[0]['msg']}")
            if answer.id != identity:
                return GuardDied(f"an answer is for {answer.id}, not {identity}")
            match answer:
                case Progress():
                    on_progress(answer)
                case Result() | Counted() | Profiled():
                    return answer
                case Refusal():
                    return GuardRefused(answer.error, answer.code, answer.lease)

    async def _running(self) -> Process:
        if self._process is not None and self._process.returncode is None:
            return self._process
        await self._end(grace=0.0)
        try:
            self._process = await guard_process.start(self._command)
        except OSError as error:
            raise GuardNotStarted(f"cannot be started ({self._command[0]}): {error}") from error
        assert self._process.stdout is not None
        self._answers = BufferedByteReceiveStream(self._process.stdout)
        return self._process

    async def _end(self, grace: float) -> None:
        process, self._process, self._answers = self._process, None, None
        if process is not None:
            await guard_process.end(process, self._log, grace)
