"""`convert`: a problem and solutions of it in the form of another benchmark."""

from pathlib import Path
from typing import Annotated, Literal

import typer

from kernelarc_guard.formats.documents import dump_document
from kernelarc_guard.formats.flashinfer import create_set, not_used, op_type
from kernelarc_guard.formats.places import place_of
from kernelarc_guard.formats.writing import (
    flashinfer_solution,
    read_solution_document,
    write_folder,
)
from kernelarc_guard.problem import read_documents, read_problem
from kernelarc_mcp.cli.console import UserError, counted, err, out
from kernelarc_mcp.cli.options import ProblemOption, Workloads, problem_folder


def convert(
    folder: Annotated[
        Path, typer.Argument(metavar="DIR", help="Problem folder to write, or the set's root.")
    ],
    problem: ProblemOption,
    to: Annotated[
        Literal["sol", "flashinfer"],
        typer.Option(
            help="A problem folder of SOL-ExecBench, or a part of a FlashInfer-Trace set."
        ),
    ] = "sol",
    solution: Annotated[
        list[Path] | None,
        typer.Option("--solution", metavar="PATH", help="Write this solution too; repeatable."),
    ] = None,
    workloads: Workloads = "workload.jsonl",
) -> None:
    """Write a problem, the files its workloads name, and solutions; no key of theirs is lost.

    What the other form has no place for is refused, and nothing is written.
    """
    source = problem_folder(problem)
    read, documents = read_problem(source, workloads), read_documents(source, workloads)
    warnings = list(read.warnings)
    solutions = [read_solution_document(one, read.definition, warnings) for one in solution or []]
    origin = place_of(source, workloads).folder
    try:
        if to == "sol":
            if folder.is_dir() and any(folder.iterdir()):
                raise UserError(f"{folder}: not empty; expected a new folder")
            write_folder(folder, documents, origin)
            for one in solutions:
                name = "solution.json" if len(solutions) == 1 else f"{one['name']}.json"
                if "/" in name:
                    raise UserError(f"name: {one['name']!r} cannot be the name of a file")
                (folder / name).write_text(dump_document(one), encoding="utf-8")
        else:
            told = [flashinfer_solution(one) for one in solutions]
            trace_set = create_set(folder)
            trace_set.add_problem(documents, origin)
            warnings += not_used(documents)
            for one in told:
                trace_set.add_solution(one, op_type(documents.definition))
    except ValueError as error:
        raise UserError(f"cannot be written as {to}: {error}") from None
    except OSError as error:
        raise UserError(f"{folder}: cannot be written: {error.strerror}") from None
    for warning in warnings:
        err.print(f"warning: {warning}", markup=False)
    out.print(
        f"{read.definition.name}: {counted(len(documents.workloads), 'workload')},"
        f" {counted(len(solutions), 'solution')} "
        f"written to {folder}",
        markup=False,
    )
