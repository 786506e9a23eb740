"""`problems`: what can be optimised out of the box, or what a folder of problems holds."""

import json
import os
import subprocess
from pathlib import Path
from typing import Annotated, Final

import typer
from pydantic import Field
from rich.table import Table

from kernelarc_guard.formats.places import definitions, is_set
from kernelarc_guard.model import Model
from kernelarc_guard.problem import ProblemError, read_problem
from kernelarc_mcp.cli.console import UserError, out, print_json
from kernelarc_mcp.cli.options import (
    Device,
    GuardPython,
    Json,
    Workloads,
    guard_python,
    library,
    problem_folder,
)
from kernelarc_mcp.cli.problem_page import print_page
from kernelarc_mcp.data import data_dir
from kernelarc_mcp.library import LibraryError, known_problems

_SECONDS: Final = 300.0


class Listed(Model):
    """One problem and what is known about it."""

    name: str
    operator_class: str = ""
    workloads: int = 0
    folder: str
    description: str = ""
    warnings: list[str] = []
    error: str = Field(default="", description="Why it cannot be read or run.")
    ran: str = Field(default="", description="What its reference gave, and at which lengths.")
    needs: str = Field(default="", description="Devices that can judge a problem of the library.")
    state: str = Field(default="", description="How far its own solutions have come.")


def problems(
    given: Annotated[
        str,
        typer.Argument(
            metavar="[NAME|PATH]",
            help="A problem of the library, a problem folder, a folder of such folders, SET:NAME or a "
            "FlashInfer-Trace set.",
            show_default="the problems that come with the project",
        ),
    ] = "",
    run: Annotated[
        bool,
        typer.Option(
            "--run", help="Run each reference once, at reduced size where the problem bears that."
        ),
    ] = False,
    device: Device = "cpu",
    workloads: Workloads = "workload.jsonl",
    guard: GuardPython = "",
    as_json: Json = False,
) -> None:
    """List problems with their class, and what is wrong with those that cannot be used.

    Of a single one it prints what a candidate must look like: arguments, shapes, dtypes, tolerance,
    reference, seed, and how `run` is called from Python and C++ on --device. Exit status 1 where one cannot be read, or with --run cannot be run.
    """
    found = _with_state([_listed(place, workloads) for place in _places(given)])
    if run:
        python = guard_python(guard)
        found = [one if one.error else _run(one, python, device, workloads) for one in found]
    if as_json:
        print_json([one.model_dump(mode="json") for one in found])
    else:
        _show(found, run, Path(given) if given and len(found) > 1 else None)
        if given and len(found) == 1 and not found[0].error:
            print_page(read_problem(_places(given)[0], workloads), device)
    if any(one.error for one in found):
        raise typer.Exit(1)


def _with_state(found: list[Listed]) -> list[Listed]:
    """Return the library's problems with what it says of them."""
    try:
        known = known_problems(data_dir("kernels"))
    except LibraryError as error:
        raise UserError(str(error)) from None
    return [
        one.model_copy(update={"needs": known[one.name].needs, "state": known[one.name].state})
        if one.name in known
        else one
        for one in found
    ]


def _places(given: str) -> list[Path]:
    if not given:
        return list(library().values())
    path = Path(given)
    if not path.is_dir():
        try:
            return [problem_folder(given)]
        except UserError as error:
            raise UserError(str(error).removeprefix("--problem: ")) from None
    if is_set(path):
        return definitions(path)
    if (path / "definition.json").exists():
        return [path]
    inside = sorted(file.parent for file in path.rglob("definition.json"))
    if not inside:
        raise UserError(f"{path}: no problem in it: no definition.json, and no folder definitions/")
    return inside


def _listed(place: Path, workloads: str) -> Listed:
    name = place.name if place.is_dir() else place.stem
    try:
        problem = read_problem(place, workloads)
    except ProblemError as error:
        return Listed(name=name, folder=str(place), error=str(error))
    return Listed(
        name=problem.definition.name,
        operator_class=problem.definition.operator_class,
        workloads=len(problem.workloads),
        folder=str(place if problem.folder is None or place.is_file() else problem.folder),
        description=problem.definition.description,
        warnings=problem.warnings,
    )


def _inside(place: str, below: Path) -> str:
    return os.path.relpath(os.path.realpath(place), os.path.realpath(below))


def _run(one: Listed, python: str, device: str, workloads: str) -> Listed:
    place = device if device.startswith("cuda") else "cpu"
    command = [python, "-I", "-m", "kernelarc_guard.formats.trying", one.folder, workloads, place]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=_SECONDS, check=False
        )
        answer = json.loads(done.stdout)
    except subprocess.TimeoutExpired:
        return one.model_copy(update={"error": f"its reference took more than {_SECONDS:g} s"})
    except ValueError:
        last = (done.stderr.strip().splitlines() or ["it said nothing"])[-1]
        died = f"its reference ended the process ({done.returncode}): {last}"
        return one.model_copy(update={"error": died})
    return one.model_copy(update=answer)


def _show(found: list[Listed], run: bool, below: Path | None) -> None:
    """Print a table, with where each problem is where they were found below a folder."""
    said = "reference" if run else "description"
    told = any(one.state for one in found)
    place = () if below is None else ("folder",)
    table = Table(
        "problem", *place, "class", "workloads", *(("state", "needs") if told else ()), said
    )
    for one in found:
        last = one.error or (one.ran if run else one.description)
        state = (one.state, one.needs) if told else ()
        where = () if below is None else (_inside(one.folder, below),)
        table.add_row(one.name, *where, one.operator_class, str(one.workloads or ""), *state, last)
    out.print(table)
    for one in found:
        for warning in one.warnings:
            out.print(f"{one.name}: warning: {warning}", markup=False)
