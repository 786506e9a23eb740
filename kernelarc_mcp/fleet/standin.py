"""The stand-in: ``python -I -m kernelarc_mcp.fleet.standin``, the guard's wire in and out, Ray behind it.

What it reads and writes is in `kernelarc_guard.fleet_wire`. When the cluster is lost it says why, on
the wire and on stderr, and ends with status 3. It ends with 0 when its stdin closes; what it has
running then is ended.
"""

import argparse
import asyncio
import json
import logging
import os
import sys
import threading
from contextlib import suppress
from typing import IO, Final, NoReturn

from pydantic import ValidationError

from kernelarc_guard.fleet_wire import TO_FLEET, Cancel, Hindrance, OnModel
from kernelarc_guard.model import Model
from kernelarc_guard.prepare import Prepare
from kernelarc_guard.protocol import Refusal
from kernelarc_guard.textfile import first_error
from kernelarc_mcp.fleet.actors import Actors
from kernelarc_mcp.fleet.asking import Asking, Remembered
from kernelarc_mcp.fleet.builds import Builds
from kernelarc_mcp.fleet.here import has_node, is_here
from kernelarc_mcp.fleet.link import NAMESPACE, PATIENCE, Address, ClusterLost, Link, first_of
from kernelarc_mcp.fleet.node import Node, NodeFailed, NodeOptions
from kernelarc_mcp.fleet.session import Session

MAX_LINE: Final = 64 << 20
LOST: Final = 3
"""Exit status where the cluster cannot be reached."""
JOIN_SECONDS: Final = 45.0
"""How long it waits for the head before it gives up; whoever started it tries again."""


LATE_SECONDS: Final = 10.0
"""After which it is said that somebody listens at the head's address, but lets nobody in."""


class Voice:
    """Standard output, for what is on the wire and nothing else."""

    def __init__(self) -> None:
        """Set fd 1 aside, so that nothing that a library prints gets between the lines."""
        self._out: IO[bytes] = os.fdopen(os.dup(1), "wb")
        os.dup2(2, 1)

    def say(self, message: Model) -> None:
        """Write one message."""
        self.line(message.model_dump_json().encode())

    def line(self, line: bytes) -> None:
        """Write one line as it is."""
        self._out.write(line + b"\n")
        self._out.flush()


class StandIn:
    """Takes requests, and lets each be asked until it is answered."""

    def __init__(self, session: Session, voice: Voice) -> None:
        self._session = session
        self._voice = voice
        self._asked: dict[str, asyncio.Task[None]] = {}
        self._remembered = Remembered()
        self._actors = Actors(session.link.namespace)
        self._builds = Builds(session, self._actors)

    async def serve(self, lines: "asyncio.Queue[bytes]") -> None:
        """Take lines until there are no more; then what is under way is taken back."""
        async with asyncio.TaskGroup() as group:
            news = group.create_task(self._session.follow())
            while line := await lines.get():
                self._take(line, group)
            for task in self._asked.values():
                task.cancel()
            while self._asked:
                await asyncio.wait(list(self._asked.values()))
            await self._builds.close()
            news.cancel()

    def _take(self, line: bytes, group: asyncio.TaskGroup) -> None:
        try:
            if len(line) > MAX_LINE:
                raise ValueError(f"a request of more than {MAX_LINE} bytes")
            message = TO_FLEET.validate_json(line)
        except ValidationError as error:
            self._voice.say(Refusal(id=_id_of(line), error=f"request: {first_error(error)[1]}"))
            return
        except ValueError as error:
            self._voice.say(Refusal(id=_id_of(line), error=str(error)))
            return
        if isinstance(message, Cancel):
            if (task := self._asked.get(message.id)) is not None:
                task.cancel()
            return
        if isinstance(message, Prepare):
            self._builds.offer(message, line)
            return
        model = ""
        if isinstance(message, OnModel):
            model, message = message.model, message.request
            line = message.model_dump_json().encode()
        shared = self._session, self._remembered, self._actors, self._builds
        asking = Asking(*shared, message, line, self._voice.line, model)
        task = group.create_task(asking.run())
        self._asked[message.id] = task
        task.add_done_callback(lambda _: self._asked.pop(message.id, None))


def _id_of(line: bytes) -> str:
    """Return whose request a line is that is no good one."""
    try:
        return str(json.loads(line)["id"])
    except (ValueError, KeyError, TypeError):
        return "?"


class _NobodyAsks(Exception):
    """Stdin closed before the head answered."""


def _read(
    lines: "asyncio.Queue[bytes]", loop: asyncio.AbstractEventLoop, closed: threading.Event
) -> None:
    """Hand over what is read; an empty line at the end."""
    source = sys.stdin.buffer
    while line := source.readline(MAX_LINE + 1):
        loop.call_soon_threadsafe(lines.put_nowait, line)
        while len(line) > MAX_LINE and not line.endswith(b"\n"):
            line = source.readline(MAX_LINE + 1)
    closed.set()
    loop.call_soon_threadsafe(lines.put_nowait, b"")


async def _main(options: argparse.Namespace, voice: Voice) -> None:
    address = Address.of(options.address)
    link = Link(address, options.namespace, options.patience)
    session = Session(
        link, voice.say, campaign=options.campaign, kind=options.kind, model=options.model
    )
    lines: asyncio.Queue[bytes] = asyncio.Queue()
    closed = threading.Event()
    reading = lines, asyncio.get_running_loop(), closed
    threading.Thread(target=_read, args=reading, daemon=True).start()
    told = False

    def waiting() -> None:
        nonlocal told
        if closed.is_set():
            raise _NobodyAsks
        if not told:
            voice.say(Hindrance(why=address.silent))
        told = True

    try:
        await address.wait(JOIN_SECONDS, waiting)
    except _NobodyAsks:
        return
    # A driver needs a node of its own host; one without devices does.
    outside = not is_here(address.host) and not has_node()
    node = Node(NodeOptions(address=str(address))) if outside else None
    # A thread's: Ray holds this one up for minutes where it is no Ray head that listens there.
    why = f"somebody listens at {address}, but did not let this host into a Ray cluster yet"
    late = threading.Timer(LATE_SECONDS, voice.say, [Hindrance(why=why)])
    late.daemon = True
    late.start()
    try:
        if node is not None:
            # In this thread, with which it ends; nobody waits for anything yet.
            node.start()
        await link.connect()
        late.cancel()
        await session.enter()
        await StandIn(session, voice).serve(lines)
        await session.leave()
    finally:
        late.cancel()
        if node is not None:
            node.stop()


def _leave(status: int) -> NoReturn:
    """End at once: Ray's own threads have nothing left to do for us."""
    sys.stderr.flush()
    os._exit(status)


def main() -> None:
    """Serve until stdin closes or the cluster is lost."""
    parser = argparse.ArgumentParser(prog="kernelarc_mcp.fleet.standin", description=__doc__)
    parser.add_argument("--address", required=True, metavar="HOST[:PORT]", help="The Ray head.")
    parser.add_argument("--namespace", default=NAMESPACE)
    parser.add_argument("--campaign", required=True, help="Whose requests these are: for shares.")
    parser.add_argument("--kind", choices=["cpu", "cuda"], required=True)
    parser.add_argument("--model", default="", help="Use devices of this model only.")
    parser.add_argument(
        "--patience", type=float, default=PATIENCE, help="Seconds of silence that are no loss yet."
    )
    options = parser.parse_args()
    voice = Voice()
    logging.basicConfig(level=logging.WARNING, stream=sys.stderr, format="stand-in: %(message)s")
    try:
        asyncio.run(_main(options, voice))
    except (ClusterLost, NodeFailed, BaseExceptionGroup) as error:
        lost = first_of(error, ClusterLost) or first_of(error, NodeFailed)
        if lost is None:
            raise
        print(f"stand-in: {lost}", file=sys.stderr)
        with suppress(OSError):
            voice.say(Hindrance(why=str(lost)))
        _leave(LOST)
    _leave(0)


if __name__ == "__main__":
    main()
