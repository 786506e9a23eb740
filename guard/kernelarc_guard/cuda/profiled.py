"""The process that is profiled: loads one solution and calls it on one workload (imports torch).

Run as a module below the profiler, with the path of a job. Only what is launched between the marks of
the profiler's range is measured: one call, after others that compile and load.
"""

import json
import os
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import torch

from kernelarc_guard.confinement import Confinement
from kernelarc_guard.runner import load_solution, wrapper_of

_WARM = 3
_LABEL = 1


def main() -> None:
    """Do the job that the first argument names; what went wrong is a line of the second file."""
    os.chdir(Path(sys.argv[2]).parent)
    job = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    told = {}
    try:
        _call(job)
    except BaseException as error:  # noqa: BLE001 - whatever a solution raises is its own failure
        told["error"] = f"{type(error).__name__}: {error}"[:2000]
    Path(sys.argv[2]).write_text(json.dumps(told), encoding="utf-8")
    os._exit("error" in told)


def _call(job: dict[str, Any]) -> None:
    """Load the solution and call it, the last time between the marks."""
    call = prepared(job)
    marks: Any = torch.cuda.profiler
    marks.start()
    call()
    torch.cuda.synchronize()
    marks.stop()


def prepared(
    job: dict[str, Any], opened: Callable[[], object] = lambda: None
) -> Callable[[], object]:
    """Open the context, be held as the job says, load its solution and warm it up; return its call.

    `opened` is called in between, while everything can still be reached. Raises what a solution does.
    """
    torch.zeros(1, device="cuda")
    torch.cuda.synchronize()
    opened()
    if job["confinement"] is not None:
        # The context is open and the profiler has its sockets: from here on nothing more is needed.
        held = Confinement.from_json(job["confinement"])
        held.enter(job["given"], job["out"], _LABEL)
    setup = job["setup"]
    wrap = wrapper_of(setup["binding"], setup["destination_passing"])
    arguments = [_argument(one, wrap) for one in job["arguments"]]
    if setup["destination_passing"]:
        arguments += [wrap(_empty(one)) for one in job["outputs"]]
    function = load_solution(setup)
    for _ in range(_WARM):
        function(*arguments)
    torch.cuda.synchronize()
    return partial(function, *arguments)


def _argument(one: dict[str, Any], wrap: Any) -> Any:
    if "value" in one:
        return one["value"]
    dtype = getattr(torch, one["dtype"])
    if not one["bytes"]:
        return wrap(_empty(one))
    raw = torch.from_file(one["file"], size=one["bytes"], dtype=torch.uint8)
    return wrap(raw.to("cuda").view(dtype).reshape(one["shape"]))


def _empty(one: dict[str, Any]) -> torch.Tensor:
    return torch.empty(one["shape"], dtype=getattr(torch, one["dtype"]), device="cuda")


if __name__ == "__main__":
    main()
