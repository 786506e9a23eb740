"""A slot of a host that only builds: ``python -I -m kernelarc_guard.build_slot [OPTIONS]``; light.

Reads one `BuildOrder` a line and answers each with one `BuildEnd`. What it builds is an entry of the order's
cache, made as a judgement would make it: after the same look at the sources, in the same sandbox, under the
same key. It ends, with its builder, when stdin closes.
"""

import argparse
import os
import sys
import threading
from queue import SimpleQueue
from typing import IO, Final

from pydantic import ValidationError

from kernelarc_guard.cores import allowed_cores
from kernelarc_guard.limits import adopt_orphans
from kernelarc_guard.prepare import BuildEnd, BuildOrder
from kernelarc_guard.preparer import TOLD_LATER, prepare
from kernelarc_guard.processes import end_children
from kernelarc_guard.sandbox import ALLOW_UNSANDBOXED, Sandbox, find_sandbox, no_sandbox
from kernelarc_guard.textfile import first_error

ON: Final = "--on"
"""Cores, as in ``0-3,8``, to which it keeps where other cores of the host time something."""
THREADS: Final = "--threads"
"""With them: how many threads a problem's runners may have, so that none of these is on those cores."""
MAX_LINE: Final = 64 << 20


def main() -> None:
    """Build what is ordered until stdin closes."""
    parser = argparse.ArgumentParser(prog="kernelarc_guard.build_slot")
    parser.add_argument(ON, dest="cores", type=allowed_cores, default=frozenset())
    parser.add_argument(THREADS, dest="threads", type=int, default=0)
    parser.add_argument(ALLOW_UNSANDBOXED, dest="allowed", action="store_true")
    given = parser.parse_args()
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    adopt_orphans()
    if given.cores:
        # All threads and processes that it starts are held there with it.
        os.sched_setaffinity(0, given.cores)
    orders: SimpleQueue[bytes] = SimpleQueue()
    threading.Thread(target=_read, args=(orders,), daemon=True).start()
    sandbox = find_sandbox()
    unsafe = no_sandbox(sandbox) if sandbox.kind == "none" and not given.allowed else ""
    while True:
        line = orders.get()
        end = BuildEnd(why=unsafe) if unsafe else end_of(line, sandbox, given.cores, given.threads)
        _say(answers, end)


def end_of(line: bytes, sandbox: Sandbox, cores: frozenset[int], threads: int) -> BuildEnd:
    """Build what one line orders, on `cores` (empty: any); why it cannot be is said in a sentence."""
    try:
        order = BuildOrder.model_validate_json(line)
    except ValidationError as error:
        return BuildEnd(why=f"order: {first_error(error)[1]}")
    request = order.request
    if cores and request.definition.kernelarc.threads > threads:
        return BuildEnd(why=f"runners with more than {threads} threads are timed where it builds")
    try:
        built = prepare(request, order.architecture, sandbox, cores)
    except TOLD_LATER as error:
        return BuildEnd(why=str(error))
    if built is None:
        return BuildEnd(why="the policy refuses it")
    if not request.candidate.is_native:
        return BuildEnd(why="it is not compiled")
    return BuildEnd(key=built.entry.parent.name, seconds=built.seconds)


def _read(orders: "SimpleQueue[bytes]") -> None:
    source = sys.stdin.buffer
    while line := source.readline(MAX_LINE + 1):
        orders.put(line)
        while len(line) > MAX_LINE and not line.endswith(b"\n"):
            line = source.readline(MAX_LINE + 1)
    end_children()
    os._exit(0)


def _say(answers: IO[bytes], end: BuildEnd) -> None:
    answers.write(end.model_dump_json().encode() + b"\n")
    answers.flush()


if __name__ == "__main__":
    main()
