"""Options that several commands share, and how they are read."""

import os
import sys
from pathlib import Path
from typing import Annotated, Literal

import typer

from kernelarc_guard.cuda import driver
from kernelarc_guard.cuda.clocks import LOCK_CLOCKS
from kernelarc_guard.formats.flashinfer import TraceSet
from kernelarc_guard.formats.places import is_set
from kernelarc_guard.problem import Problem, read_problem
from kernelarc_guard.solution import Solution, read_solution, reference_solution, seed_solution
from kernelarc_mcp.cli.console import UserError
from kernelarc_mcp.data import data_dir
from kernelarc_mcp.host.guard_client import UNSANDBOXED_VARIABLE
from kernelarc_mcp.host.settings import check_device

GUARD_PYTHON_VARIABLE = "KERNELARC_GUARD_PYTHON"

GuardPython = Annotated[
    str,
    typer.Option(
        "--guard-python",
        envvar=GUARD_PYTHON_VARIABLE,
        help="Interpreter of the environment that has the guard's packages (torch).",
        show_default="this interpreter",
    ),
]


def _allow_unsandboxed(value: bool) -> bool:
    if value:  # servers that this command starts inherit it
        os.environ[UNSANDBOXED_VARIABLE] = "1"
    return value


AllowUnsandboxed = Annotated[
    bool,
    typer.Option(
        "--allow-unsandboxed",
        callback=_allow_unsandboxed,
        help="Judge even where no sandbox can be had. Only for code you would run yourself.",
    ),
]


def _lock_clocks(value: int) -> int:
    if value:  # as above
        os.environ[LOCK_CLOCKS] = str(value)
    return value


LockClocks = Annotated[
    int,
    typer.Option(
        "--lock-clocks",
        metavar="MHZ",
        min=0,
        callback=_lock_clocks,
        help="Hold a GPU's multiprocessors at this clock while it is leased. Needs the right to.",
        show_default="the clocks are left alone",
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON document.")]
CampaignDir = Annotated[Path, typer.Argument(metavar="DIR", help="A campaign's directory.")]
ProblemOption = Annotated[
    str,
    typer.Option(
        "--problem",
        metavar="NAME|DIR|SET:NAME",
        help="A problem of the library, a problem folder, or a definition of a FlashInfer-Trace set.",
    ),
]
SolutionOption = Annotated[
    Path,
    typer.Option(
        "--solution",
        metavar="PATH",
        help="A solution.json, a folder with one, or a source file whose entry is `run`.",
    ),
]
ToleranceMode = Annotated[
    Literal["strict", "sol", "flashinfer"] | None,
    typer.Option(
        "--tolerance",
        help="Compare as this benchmark does instead of as the problem says.",
        show_default="the problem's own, else strict",
    ),
]
RecordOption = Annotated[
    Path | None,
    typer.Option(
        "--record",
        metavar="PATH",
        help="What to compare with.",
        show_default="the problem's seed, else its reference",
    ),
]


def known_device(value: str) -> str:
    """Return a device's name as it was given; UserError where no guard can know it."""
    try:
        return check_device(value) if value else value
    except ValueError as error:
        raise UserError(f"--device: {error}") from None


Device = Annotated[
    str,
    typer.Option(
        "--device", metavar="cpu|cuda:N", callback=known_device, help="Device to measure on."
    ),
]
Workloads = Annotated[
    str, typer.Option("--workloads", metavar="FILE", help="Workload file inside the folder.")
]


def guard_python(given: str) -> str:
    """Return the interpreter to run the guard with: the given one, else this one."""
    chosen = given or sys.executable
    if not (os.path.isfile(chosen) and os.access(chosen, os.X_OK)):
        raise UserError(f"--guard-python: {chosen} is not an executable file")
    return chosen


def gpus_here() -> int:
    """Return how many NVIDIA GPUs this process can see; none without a driver."""
    try:
        return driver.device_count()
    except (driver.NoDriver, driver.CudaError):
        return 0


def library() -> dict[str, Path]:
    """Return the problems that come with the project: name -> folder."""
    root = data_dir("kernels")
    if not root.is_dir():
        return {}
    return {p.parent.name: p.parent for p in sorted(root.glob("*/definition.json"))}


def problem_folder(given: str) -> Path:
    """Return where a problem is read from, by library name, path or SET:NAME; UserError if nowhere."""
    known = library()
    if given in known:
        return known[given]
    path = Path(given)
    if path.is_dir() or (path.is_file() and path.suffix == ".json"):
        return path
    root, _, name = given.rpartition(":")
    if root and is_set(Path(root)):
        return TraceSet(Path(root)).file(name)
    names = ", ".join(known) or "none here"
    raise UserError(f"--problem: {given!r} is no folder and no library problem ({names})")


def chosen_problem(
    given: str, workloads: str, tolerance: Literal["strict", "sol", "flashinfer"] | None = None
) -> Problem:
    """Read the problem that the options name, with another tolerance mode where one is given."""
    problem = read_problem(problem_folder(given), workloads)
    if tolerance is None:
        return problem
    definition = problem.definition
    keys = definition.kernelarc.model_copy(update={"tolerance": tolerance})
    return Problem(
        definition=definition.model_copy(update={"kernelarc": keys}),
        workloads=problem.workloads,
        warnings=problem.warnings,
        folder=problem.folder,
    )


def record_of(given: Path | None, problem: Problem, device: str = "cpu") -> Solution:
    """Return the given solution, else the problem's seed on a device, else its reference."""
    definition = problem.definition
    if given is not None:
        if not given.exists():
            raise UserError(f"--record: {given}: no such file or folder")
        return read_solution(given, definition)
    seed = seed_solution(Path(problem.folder), definition, device) if problem.folder else None
    return seed or reference_solution(definition)
