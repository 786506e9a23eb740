"""Talking to the guard's process: one JSON request per line in, progress and one answer out."""

import logging
import math
import os
import signal
import subprocess
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Final, Self

import anyio
from anyio.abc import ByteReceiveStream, Process
from anyio.streams.buffered import BufferedByteReceiveStream
from pydantic import ValidationError

from kernelarc_guard.inquiries import REPLY, Counted, Inquiry, Profiled
from kernelarc_guard.protocol import (
    Lease,
    Progress,
    Refusal,
    Request,
    Result,
)

MAX_LINE: Final = 64 << 20
"""Bytes of the longest answer that is read."""
WAITING: Final = "waiting for the device"
"""What the guard says before it asks for the device's lock; what it says next, it says holding it."""
LOG_BYTES: Final = 4 << 20
"""Size at which the log of the guard's messages is set aside and started again."""

UNSANDBOXED_VARIABLE: Final = "KERNELARC_ALLOW_UNSANDBOXED"
"""Set to 1, guards are told to run candidates where there is no sandbox."""

_LOG: Final = logging.getLogger(__name__)

OnProgress = Callable[[Progress], None]


class GuardError(Exception):
    """Base of what can go wrong with the guard itself; never the candidate's fault alone."""


class GuardDied(GuardError):
    """The guard's process ended, hung past its deadline or did not keep to the protocol."""


class GuardNotStarted(GuardDied):
    """The guard's process could not even be started: nothing about a candidate."""


class GuardRefused(GuardError):
    """The guard could not judge: the request, the problem, the record or the machine is at fault."""

    def __init__(self, message: str, code: str = "", lease: Lease | None = None) -> None:
        super().__init__(message)
        self.code = code
        """As in the guard's refusal: `record_failed`, `anchor_failed`, `builder_lost` or empty."""
        self.lease = lease
        """When the device was held for it all the same."""


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
        """End the guard: close its stdin, and kill it where it does not go."""
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
            group.start_soon(self._drain, process)
            try:
                await process.stdin.send(line)
                result = await self._read(answers, request.id, on_progress)
            except (anyio.BrokenResourceError, anyio.ClosedResourceError, OSError) as error:
                result = GuardDied(f"its pipe broke: {await _status(process)}: {error}")
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
                return GuardDied(f"its process ended: {await _status(self._process)}")
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
            self._process = await anyio.open_process(
                self._command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                # A Ctrl-C in the terminal is the server's to handle; its end is the guard's end.
                start_new_session=True,
            )
        except OSError as error:
            raise GuardNotStarted(f"cannot be started ({self._command[0]}): {error}") from error
        assert self._process.stdout is not None
        self._answers = BufferedByteReceiveStream(self._process.stdout)
        return self._process

    async def _drain(self, process: Process) -> None:
        """Keep the guard's messages, so that it never waits for somebody to read them."""
        assert process.stderr is not None
        await _copy(process.stderr, self._log)

    async def _end(self, grace: float) -> None:
        process, self._process, self._answers = self._process, None, None
        if process is None:
            return
        with anyio.CancelScope(shield=True):
            if process.stdin is not None:
                with suppress(anyio.BrokenResourceError, OSError):
                    await process.stdin.aclose()
            with anyio.move_on_after(grace):
                async with anyio.create_task_group() as group:
                    for stream in (process.stdout, process.stderr):
                        if stream is not None:
                            target = self._log if stream is process.stderr else None
                            group.start_soon(_copy, stream, target)
                    await process.wait()
                    group.cancel_scope.cancel()
            # Its group: a guard that is killed cannot clean up after itself any more.
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, signal.SIGKILL)
            await process.wait()
            await process.aclose()


async def _copy(stream: ByteReceiveStream, target: Path | None) -> None:
    with suppress(anyio.EndOfStream, anyio.BrokenResourceError, anyio.ClosedResourceError):
        while True:
            chunk = await stream.receive(65536)
            if target is not None:
                _append(target, chunk)


def _append(log: Path, chunk: bytes) -> None:
    try:
        if log.exists() and log.stat().st_size > LOG_BYTES:
            log.replace(log.with_suffix(".old.log"))
        with log.open("ab") as file:
            file.write(chunk)
    except OSError as error:
        # A full disk must not end a judgement; what the guard said is kept where it still can be.
        said = chunk.decode("utf-8", "replace")
        _LOG.warning("%s cannot be written (%s); the guard said: %s", log, error, said)


async def _status(process: Process) -> str:
    """Return how a process that closed its pipe ended, waiting a moment for it."""
    with anyio.move_on_after(5.0):
        await process.wait()
    if process.returncode is None:
        return "still running"
    if process.returncode < 0:
        return signal.Signals(-process.returncode).name
    return f"exit status {process.returncode}"
