"""The process in which CUPTI records a call: loads one solution and calls it on one workload (imports torch).

Run as a module, with the path of a job. The call is made twice while it is recorded, after others that
compile and load: on an idle device, as it is, then behind a kernel that keeps the device busy while it
is launched, as calls are timed. What is left is as honest as the solution: it explains, no more.
"""

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import torch

from kernelarc_guard.cuda.cupti_recorder import NoCupti, Record, Recorder, plain_name
from kernelarc_guard.cuda.profiled import prepared
from kernelarc_guard.timeline import launching
from kernelarc_guard.timeline_model import (
    MOST_NAME,
    MOST_RECORDS,
    Activity,
    Kind,
    Launch,
    Recorded,
    Traces,
)

_SPIN: Final = "spin_kernel"
_CYCLES_PER_NS: Final = 2
"""No device of today has a faster clock: it spins at least as long as it is asked to."""
_LEAST_NS: Final = 1_000_000
_MOST_NS: Final = 200_000_000
_TIMES: Final = 3
"""So much longer than launching took before is the device kept busy."""
_ERROR: Final = 2000


def main() -> None:
    """Do the job that the first argument names and write `Traces` to the second."""
    os.chdir(Path(sys.argv[2]).parent)
    job = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    try:
        traces = _traced(job)
    except NoCupti as error:
        traces = Traces(refused=str(error)[:_ERROR])
    except BaseException as error:  # noqa: BLE001 - whatever a solution raises is its own failure
        traces = Traces(error=f"{type(error).__name__}: {error}"[:_ERROR])
    Path(sys.argv[2]).write_text(traces.model_dump_json(), encoding="utf-8")
    os._exit(0)


def _traced(job: dict[str, Any]) -> Traces:
    recorder = Recorder(calls=True)
    call = prepared(job, opened=recorder.flush)
    plain = recorded(recorder, call)
    host = plain.returned - plain.began
    behind = recorded(recorder, call, min(max(_LEAST_NS, _TIMES * host), _MOST_NS))
    return Traces(plain=plain, behind=behind)


def recorded(recorder: Recorder, call: Callable[[], object], spin_ns: int = 0) -> Recorded:
    """Make a call and return what the device did for it; with `spin_ns` behind so long a kernel."""
    spin: Any = torch.cuda._sleep
    torch.cuda.synchronize()
    recorder.start()
    if spin_ns:
        spin(spin_ns * _CYCLES_PER_NS)
    began = recorder.now()
    call()
    returned = recorder.now()
    torch.cuda.synchronize()
    return told(recorder.stop(), began, returned, behind=bool(spin_ns))


def told(records: list[Record], began: int, returned: int, *, behind: bool) -> Recorded:
    """Return the records of a call that began and returned then, less the kernel that it was behind."""
    device = [one for one in records if one.kind != "call"]
    released = None
    if behind and (spins := [one for one in device if _SPIN in one.name]):
        device.remove(spins[0])
        released = spins[0].end
    timed = [one for one in device if 0 < one.begin <= one.end]
    activities = [_activity(one) for one in timed[:MOST_RECORDS]]
    calls = [
        Launch(correlation=one.correlation, begin=one.begin, end=one.end)
        for one in records
        if one.kind == "call" and one.begin >= began
    ]
    return Recorded(
        began=began,
        returned=returned,
        released=released,
        activities=activities,
        launches=launching(activities, calls),
        left_out=len(device) - len(activities),
    )


def _activity(one: Record) -> Activity:
    kinds: dict[str, Kind] = {"kernel": "kernel", "copy": "copy", "fill": "fill"}
    return Activity(
        kind=kinds[one.kind],
        name=plain_name(one.name)[:MOST_NAME],
        begin=one.begin,
        end=one.end,
        correlation=one.correlation,
        stream=one.stream,
        grid=one.grid,
        block=one.block,
    )


if __name__ == "__main__":
    main()
