"""The process that makes a problem of somebody's code: ``python -m kernelarc_guard.formats.authoring``.

One JSON request on stdin, one JSON answer on stdout; what the code prints goes to stderr. It runs the code
as it is, as its author would.
"""

import json
import os
import shutil
import sys
import tempfile
from pathlib import Path

from pydantic import ValidationError

from kernelarc_guard.check_problem import check_problem
from kernelarc_guard.formats.authored import Answer, Request
from kernelarc_guard.formats.documents import Documents
from kernelarc_guard.formats.function_problem import from_function
from kernelarc_guard.formats.kernelbench import NEEDED, from_module, is_kernelbench
from kernelarc_guard.formats.module_source import NotUsable, find
from kernelarc_guard.formats.needs import with_need
from kernelarc_guard.formats.selection import elements
from kernelarc_guard.formats.tolerances import propose
from kernelarc_guard.formats.writing import write_folder
from kernelarc_guard.inputs import make_inputs
from kernelarc_guard.oracle import Oracle
from kernelarc_guard.problem import Problem, ProblemError, read_problem
from kernelarc_guard.textfile import first_error


def author(request: Request) -> Answer:
    """Write the problem that a request asks for and try it; the answer's error says what was wrong.

    Nothing is left behind where it cannot be graded.
    """
    notes: list[str] = []
    target = Path(request.folder)
    if target.exists():
        told = "if an earlier try was broken off and left it, remove it first"
        return Answer(error=f"{target}: exists; expected a new folder; {told}")
    reference = ""
    try:
        documents = _documents(request, notes)
        reference = documents.definition["reference"]
        target.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=target.parent, prefix=".new-") as scratch:
            folder = Path(scratch) / "problem"
            write_folder(folder, documents)
            problem = read_problem(folder)
            _steady(problem, request)
            bounds = propose(problem, request.device, request.max_atol, request.max_rtol)
            for line in documents.workloads:
                line["tolerance"] = bounds[line["uuid"]].model_dump(
                    mode="json", exclude={"max_error_cap", "allow_negative_inf"}
                )
            write_folder(folder, documents)
            problem = read_problem(folder)
            notes += problem.warnings
            notes += check_problem(problem, request.device)
            shutil.move(folder, target)
    except (NotUsable, ProblemError, ValueError) as error:
        return Answer(error=with_need(error, reference, request.device), notes=notes)
    except OSError as error:
        return Answer(error=f"{target}: cannot be written: {error.strerror}", notes=notes)
    return Answer(name=problem.definition.name, notes=notes)


def _documents(request: Request, notes: list[str]) -> Documents:
    found = find(request.source, Path(request.place))
    if found.name in ("", "Model") and is_kernelbench(found.module):
        return from_module(found, request, notes)
    if request.settings or request.evaluating:
        raise NotUsable("--set and --eval are for modules with Model, get_inputs, get_init_inputs")
    if not found.name:
        raise NotUsable(
            f"--from {request.source}: expected {request.source}:FUNCTION, or a module with "
            f"{', '.join(NEEDED)}"
        )
    return from_function(found, request, notes)


def _steady(problem: Problem, request: Request) -> None:
    """Raise NotUsable for a reference whose answer is another each time."""
    workload = min(problem.workloads, key=lambda one: elements(problem.definition, one))
    oracle = Oracle(problem, request.device)
    inputs = make_inputs(
        problem.definition, workload, 1, folder=problem.folder, device=request.device
    )
    first, second = (oracle.reference_outputs(workload, inputs) for _ in range(2))
    for name, one in first.items():
        same = (one == second[name]) | (one != one)
        if not bool(same.all()):
            raise NotUsable(
                f"output {name} is another each time for the same inputs: does it draw random numbers "
                "(dropout is switched off by --eval)?"
            )


def main() -> None:
    """Answer the request on stdin."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    try:
        request = Request.model_validate(json.loads(sys.stdin.buffer.read()))
    except ValidationError as error:
        answer = Answer(error=first_error(error)[1])
    else:
        answer = author(request)
    answers.write(answer.model_dump_json())
    answers.close()


if __name__ == "__main__":
    main()
