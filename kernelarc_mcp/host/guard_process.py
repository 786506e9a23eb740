"""A process that speaks the guard's protocol over its standard streams: starting, listening, ending."""

import logging
import os
import signal
import subprocess
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

import anyio
from anyio.abc import ByteReceiveStream, Process

LOG_BYTES: Final = 4 << 20
"""Size at which the log of a guard's messages is set aside and started again."""

_LOG: Final = logging.getLogger(__name__)


async def start(command: Sequence[str]) -> Process:
    """Start a process with pipes for all three streams; OSError where that cannot be.

    A cancellation waits until the process can be handed over: nobody else would wait for its end.
    """
    with anyio.CancelScope(shield=True):
        process = await anyio.open_process(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            # A Ctrl-C in the terminal is the server's to handle; its end is the guard's end.
            start_new_session=True,
        )
    return process


async def keep_messages(process: Process, log: Path | None) -> None:
    """Keep what it says beside its answers, so that it never waits for somebody to read it."""
    assert process.stderr is not None
    await _copy(process.stderr, log)


async def how_it_ended(process: Process) -> str:
    """Say how a process that closed its pipe ended, waiting a moment for it."""
    with anyio.move_on_after(5.0):
        await process.wait()
    if process.returncode is None:
        return "still running"
    if process.returncode < 0:
        return signal.Signals(-process.returncode).name
    return f"exit status {process.returncode}"


async def end(process: Process, log: Path | None, grace: float) -> None:
    """Close its stdin, and kill it with its group where it does not go within `grace` seconds."""
    with anyio.CancelScope(shield=True):
        if process.stdin is not None:
            with suppress(anyio.BrokenResourceError, OSError):
                await process.stdin.aclose()
        with anyio.move_on_after(grace):
            async with anyio.create_task_group() as group:
                for stream in (process.stdout, process.stderr):
                    if stream is not None:
                        target = log if stream is process.stderr else None
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
