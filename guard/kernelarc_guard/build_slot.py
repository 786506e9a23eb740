"""A slot of a host that only builds: ``python -I -m kernelarc_guard.build_slot [OPTIONS]``; light.

Reads one `BuildOrder` a line and answers each with one `BuildEnd`. What it builds is an entry of the order's
cache, made as a judgement would make it: after the same look at the sources, in the same sandbox, under the
same key. It ends, with its builder, when stdin closes.
"""

import os
import sys
import threading
from queue import SimpleQueue
from typing import IO, Final

from pydantic import ValidationError

from kernelarc_guard.cores import ahead_cores, builder_cores
from kernelarc_guard.limits import adopt_orphans
from kernelarc_guard.prepare import BuildEnd, BuildOrder
from kernelarc_guard.preparer import TOLD_LATER, prepare
from kernelarc_guard.processes import end_children
from kernelarc_guard.sandbox import ALLOW_UNSANDBOXED, Sandbox, find_sandbox, no_sandbox
from kernelarc_guard.textfile import first_error

BESIDE: Final = "--beside"
"""Where devices of the host are measured on: keep to cores on which nothing is timed."""
MAX_LINE: Final = 64 << 20


def main() -> None:
    """Build what is ordered until stdin closes."""
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    adopt_orphans()
    orders: SimpleQueue[bytes] = SimpleQueue()
    threading.Thread(target=_read, args=(orders,), daemon=True).start()
    sandbox, beside = find_sandbox(), BESIDE in sys.argv[1:]
    unsafe = ""
    if sandbox.kind == "none" and ALLOW_UNSANDBOXED not in sys.argv[1:]:
        unsafe = no_sandbox(sandbox)
    if beside and (cores := builder_cores()):
        os.sched_setaffinity(0, cores)
    while True:
        line = orders.get()
        _say(answers, BuildEnd(why=unsafe) if unsafe else end_of(line, sandbox, beside))


def end_of(line: bytes, sandbox: Sandbox, beside: bool) -> BuildEnd:
    """Build what one line orders; what a judgement would meet instead is said in a sentence."""
    try:
        order = BuildOrder.model_validate_json(line)
    except ValidationError as error:
        return BuildEnd(why=f"order: {first_error(error)[1]}")
    request, cores = order.request, frozenset[int]()
    if beside:
        cores = ahead_cores(request.definition.kernelarc.threads)
        if not cores:
            return BuildEnd(why="there are too few cores to build beside what is timed there")
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
