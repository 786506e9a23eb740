"""The process that runs a problem's reference once: ``python -m kernelarc_guard.formats.trying PATH``.

One JSON line on stdout. The smallest workload is taken, with its axes cut down where the problem bears
that, so that a large problem is tried on a small machine.
"""

import json
import math
import os
import resource
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from kernelarc_guard.definition import Definition
from kernelarc_guard.dtypes import all_finite
from kernelarc_guard.formats.needs import with_need
from kernelarc_guard.formats.selection import elements
from kernelarc_guard.inputs import InputError, make_inputs
from kernelarc_guard.oracle import Oracle, OracleError
from kernelarc_guard.problem import Problem, ProblemError, read_problem
from kernelarc_guard.workload import Workload

_LONGEST: Final = (4, 16, 64)
"""Lengths that axes are cut down to, tried in turn before the workload as it is."""
_SHARE: Final = 0.8
"""Of the machine's memory that one reference may have."""


def run_once(problem: Problem, place: str = "cpu") -> str:
    """Run the reference on the smallest inputs that it accepts; returns what it gave.

    Raises ValueError, in one line, where it accepts none or no inputs can be made.
    """
    smallest = min(problem.workloads, key=lambda one: elements(problem.definition, one))
    oracle = Oracle(problem, place)
    first: ValueError | None = None
    for workload in (*_cut_down(problem.definition, smallest), smallest):
        try:
            inputs = make_inputs(
                problem.definition, workload, 1, folder=problem.folder, device=place
            )
            outputs = oracle.reference_outputs(workload, inputs)
        except (InputError, OracleError) as error:
            first = error  # of the workload as it is, which comes last
            continue
        seen = [
            f"{name} {list(one.shape)} {str(one.dtype).removeprefix('torch.')}"
            + ("" if all_finite(one) else " (not all finite)")
            for name, one in outputs.items()
        ]
        at = ", ".join(f"{name}={length}" for name, length in workload.axes.items())
        return f"{'; '.join(seen)} at {at or 'its only lengths'}"
    assert first is not None
    said = f"workload {smallest.uuid}: {first}"
    raise ValueError(with_need(said, problem.definition.reference, place))


def _cut_down(definition: Definition, workload: Workload) -> Iterator[Workload]:
    if any(spec.type == "safetensors" for spec in workload.inputs.values()):
        return  # a file has the lengths it has
    seen = [workload.axes]
    for longest in _LONGEST:
        axes = {name: min(length, longest) for name, length in workload.axes.items()}
        if axes not in seen:
            seen.append(axes)
            try:
                definition.resolve(axes)
            except ValueError:
                continue
            yield workload.model_copy(update={"axes": axes})


def main() -> None:
    """Try the problem named on the command line."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    path, workloads, place = sys.argv[1:4]
    if place == "cpu":
        have = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
        limit = math.floor(have * _SHARE)
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    try:
        answer = {"ran": run_once(read_problem(Path(path), workloads), place)}
    except (ValueError, ProblemError) as error:
        answer = {"error": str(error)}
    except MemoryError:
        answer = {"error": "this machine has too little memory for it"}
    answers.write(json.dumps(answer) + "\n")
    answers.close()


if __name__ == "__main__":
    main()
