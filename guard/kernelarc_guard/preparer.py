"""The process that builds ahead: it looks at sources and has them built, as a judgement would; light.

Run as ``python -I -m kernelarc_guard.preparer GIVEN``, a JSON text with the guard's own sandbox and the cores
to keep to: reads one JSON job a line. It says nothing to anybody: what is built is in the cache, under the
lock of its entry, so that a judgement that comes meanwhile waits for it. It ends with all its builders when
the guard does.
"""

import json
import os
import sys
import traceback
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final

from kernelarc_guard.ahead_room import SECONDS
from kernelarc_guard.ahead_rooms import Rooms
from kernelarc_guard.build import BuildFailed, Built, Limits, build
from kernelarc_guard.cgroups import remove_all
from kernelarc_guard.faults import Refused
from kernelarc_guard.kernels_ahead import Order, compile_ahead
from kernelarc_guard.limits import adopt_orphans, die_with_parent
from kernelarc_guard.policy import examine
from kernelarc_guard.prepare import Prepare
from kernelarc_guard.processes import end_children
from kernelarc_guard.sandbox import Sandbox
from kernelarc_guard.supervised import SupervisorLost

_AT_ONCE: Final = 2
TOLD_LATER: Final = (BuildFailed, Refused, SupervisorLost, OSError)
"""What the judgement meets again, and tells."""


def main() -> None:
    """Build ahead until stdin closes."""
    die_with_parent()
    adopt_orphans()
    given = json.loads(sys.argv[1])
    sandbox = Sandbox(**given["sandbox"] | {"shown": tuple(given["sandbox"]["shown"])})
    cores = frozenset(given["cores"])
    # All threads and processes that it starts are held there with it.
    os.sched_setaffinity(0, cores)
    ahead = _Ahead(sandbox, cores)
    for line in sys.stdin.buffer:
        ahead.offer(json.loads(line))
    end_children()
    remove_all()
    os._exit(0)


def prepare(
    request: Prepare, architecture: str, sandbox: Sandbox, cores: frozenset[int]
) -> Built | None:
    """Build one solution where the policy lets it pass, else None; raises what a judgement would meet."""
    if examine(request.candidate, request.definition).findings:
        return None
    return build(
        request.candidate,
        Path(request.cache_dir),
        seconds=request.schedule.build_seconds,
        memory_bytes=request.schedule.memory_bytes,
        sandbox=sandbox,
        gpu=architecture,
        cores=cores,
    )


class _Ahead:
    """What is done for the solutions that are next in line: all are built, Triton's kernels compiled too."""

    def __init__(self, sandbox: Sandbox, cores: frozenset[int]) -> None:
        self._sandbox, self._cores = sandbox, cores
        self._rooms = Rooms()
        self._builds = ThreadPoolExecutor(_AT_ONCE)
        # Of its own: a solution's code runs there, and may take all the time it is given.
        self._kernels = ThreadPoolExecutor(_AT_ONCE)

    def offer(self, job: dict[str, Any]) -> None:
        """Have a job done."""
        self._builds.submit(self._build, job).add_done_callback(_say)

    def _build(self, job: dict[str, Any]) -> None:
        request = Prepare.model_validate(job["request"])
        built = prepare(request, job["gpu"], self._sandbox, self._cores)
        if built is None:
            return
        definition, workloads = request.definition, request.workloads
        order = Order(request.candidate, built.digest, job["properties"], definition, workloads)
        limits = Limits(SECONDS, request.schedule.memory_bytes, self._sandbox, self._cores)
        if order.sensible:
            self._kernels.submit(
                compile_ahead, order, built, Path(request.cache_dir), limits, self._rooms
            ).add_done_callback(_say)


def _say(done: Future[Any]) -> None:
    error = done.exception()
    if error is not None and not isinstance(error, TOLD_LATER):
        traceback.print_exception(error)


if __name__ == "__main__":
    main()
