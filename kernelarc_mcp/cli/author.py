"""`new --from`: a problem folder made of somebody's code, tried and judged against itself."""

import ast
import subprocess
from pathlib import Path
from typing import Annotated, Any, Final

import anyio
import typer
from pydantic import ValidationError

from kernelarc_guard.formats.authored import Answer, Request, Scalar
from kernelarc_guard.problem import Problem, read_problem
from kernelarc_guard.protocol import Schedule
from kernelarc_guard.solution import reference_solution
from kernelarc_guard.textfile import first_error
from kernelarc_mcp.cache import build_cache, calibration_cache, guard_log
from kernelarc_mcp.calibrations import CalibrationCache
from kernelarc_mcp.cli.console import UserError, err
from kernelarc_mcp.cli.stages import shown_stages
from kernelarc_mcp.evaluation import Case, Evaluation, evaluate
from kernelarc_mcp.host.guard_client import GuardClient, GuardError

_SECONDS: Final = 1800

From = Annotated[
    str,
    typer.Option(
        "--from",
        metavar="MODULE:FUNCTION",
        help="Make a problem of this code (or FILE.py:FUNCTION, or a KernelBench-style FILE.py) in DIR.",
        show_default=False,
    ),
]
Shape = Annotated[
    list[str] | None,
    typer.Option(
        "--shape", metavar="NAME=ROWS,1024", help="With --from: a tensor's axes and lengths."
    ),
]
Dtype = Annotated[
    list[str] | None,
    typer.Option(
        "--dtype",
        metavar="[NAME=]DTYPE",
        help="With --from: the dtype of one tensor, or of all others; float32 without it.",
    ),
]
Axes = Annotated[
    list[str] | None,
    typer.Option(
        "--axes",
        metavar="ROWS=16,COLUMNS=64",
        help="With --from: lengths of the axes; once for each workload.",
    ),
]
ScalarInput = Annotated[
    list[str] | None,
    typer.Option("--scalar", metavar="NAME=1e-6", help="With --from: an input that is a number."),
]
Constant = Annotated[
    list[str] | None,
    typer.Option(
        "--constant", metavar="NAME=-1", help="With --from: a parameter that is no input."
    ),
]
DrawWith = Annotated[
    str,
    typer.Option(
        "--draw",
        metavar="FUNCTION",
        help="With --from: the file's function (axes, device) -> inputs by name; else random.",
        show_default=False,
    ),
]
Settings = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="NAME=128",
        help="With --from and a KernelBench-style module: another value of one of its constants.",
    ),
]
Evaluating = Annotated[
    bool,
    typer.Option("--eval", help="With --from and a KernelBench-style module: call Model.eval()."),
]
OpType = Annotated[
    str,
    typer.Option(
        "--op-type",
        help="With --from: the kind of operator, which lenses are chosen by.",
        show_default="other",
    ),
]
Judge = Annotated[
    bool,
    typer.Option(
        "--judge/--no-judge",
        help="With --from: judge the reference against itself, which must not be faster.",
    ),
]


def request_from(
    source: str, folder: Path, options: dict[str, list[str] | None], **more: Any
) -> Request:
    """Return the request that the options make; UserError names the option that is not possible."""
    file = source.rpartition(":")[0] or source
    if file.endswith(".py") and not Path(file).is_file():
        # Told at once: finding out what is in a file takes an import of torch.
        raise UserError(f"--from: {file}: no such file")
    shapes = {
        name: [dim.strip() for dim in text.split(",")] if text.strip() else []
        for name, text in _named("--shape", options["shapes"]).items()
    }
    dtypes: dict[str, str] = {}
    for text in options["dtypes"] or []:
        name, _, dtype = text.rpartition("=")
        if (name or "*") in dtypes:
            raise UserError(f"--dtype {text}: {name or 'that of all others'} is given twice")
        dtypes[name or "*"] = dtype
    axes: list[dict[str, int]] = []
    for text in options["axes"] or []:
        one = _named("--axes", text.split(","))
        if not all(length.isascii() and length.isdigit() for length in one.values()):
            raise UserError(f"--axes {text}: expected NAME=LENGTH[,NAME=LENGTH...]")
        axes.append({name: int(length) for name, length in one.items()})
    try:
        return Request(
            source=source,
            folder=str(folder.resolve()),
            place=str(Path.cwd()),
            shapes=shapes,
            dtypes=dtypes,
            axes=axes,
            scalars=_scalars(options["scalars"]),
            constants=_literals("--constant", options["constants"]),
            settings=_literals("--set", options["settings"]),
            **more,
        )
    except ValidationError as error:
        raise UserError(first_error(error)[1]) from None


def author(request: Request, python: str, device: str, judge: bool) -> tuple[Problem, list[str]]:
    """Write the problem and try it; returns it with what was seen. UserError where it is no good."""
    # -P: files here must not be taken for modules of the standard library while torch is imported.
    command = [python, "-P", "-m", "kernelarc_guard.formats.authoring"]
    try:
        done = subprocess.run(
            command,
            input=request.model_dump_json().encode(),
            stdout=subprocess.PIPE,
            stderr=None,
            cwd=request.place,
            timeout=_SECONDS,
            check=False,
        )
        answer = Answer.model_validate_json(done.stdout)
    except subprocess.TimeoutExpired:
        raise UserError(f"--from: took more than {_SECONDS} s") from None
    except (OSError, ValidationError) as error:
        raise UserError(f"--from: {python} gave no answer: {error}") from None
    for note in answer.notes:
        err.print(f"note: {note}", markup=False)
    if answer.error:
        raise UserError(answer.error)
    problem = read_problem(Path(request.folder))
    return problem, _judged(problem, python, device) if judge else []


def _judged(problem: Problem, python: str, device: str) -> list[str]:
    """Judge the reference against itself: anything but a KEEP shows that nothing comes for free."""
    reference = reference_solution(problem.definition)
    case = Case(
        problem=problem,
        record=reference,
        device=device,
        cache_dir=str(build_cache()),
        schedule=Schedule(),
    )

    async def ask(tell: Any) -> Evaluation:
        async with GuardClient(python, guard_log()) as guard:
            return await evaluate(
                guard, case, reference, CalibrationCache(calibration_cache()), tell
            )

    with shown_stages() as tell:
        try:
            found = anyio.run(ask, tell)
        except GuardError as error:
            raise UserError(f"{problem.folder}: written, but not judged: {error}") from None
    if found.verdict == "REJECT" or found.stage != "timing":
        raise UserError(
            f"{problem.folder}: written, but its own reference is no solution of it: "
            f"{found.reason}: {found.detail}"
        )
    if found.verdict == "KEEP":
        raise UserError(
            f"{problem.folder}: written, but its reference was judged {found.speedup:.3f} times as fast "
            "as itself: this device is not measured well (kernelarc-mcp doctor)"
        )
    return [gained_nothing(found.verdict, found.reason)]


def gained_nothing(verdict: str, reason: str) -> str:
    """Say that a problem's reference was judged against itself as any kernel that is no faster."""
    return (
        "Judged: a kernel that is no faster gains nothing, as the reference does against itself"
        f" ({verdict} {reason})."
    )


def _named(option: str, given: list[str] | None) -> dict[str, str]:
    found: dict[str, str] = {}
    for text in given or []:
        name, equals, value = text.partition("=")
        if not equals or not name.strip().isidentifier():
            raise UserError(f"{option} {text}: expected NAME=...")
        if name.strip() in found:
            raise UserError(f"{option}: {name.strip()} is given twice")
        found[name.strip()] = value
    return found


def _literals(option: str, given: list[str] | None) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, text in _named(option, given).items():
        try:
            found[name] = _plain(ast.literal_eval(text))
        except (ValueError, SyntaxError, MemoryError, RecursionError):
            raise UserError(f"{option} {name}={text}: expected a Python literal") from None
    return found


def _plain(value: Any) -> Any:
    """Return a literal as JSON can hold it: tuples become lists."""
    return [_plain(one) for one in value] if isinstance(value, tuple | list) else value


def _scalars(given: list[str] | None) -> dict[str, Scalar]:
    found = _literals("--scalar", given)
    for name, value in found.items():
        if not isinstance(value, bool | int | float):
            raise UserError(f"--scalar {name}: expected a number or True or False")
    return found


def unused(options: dict[str, list[str] | None], **more: object) -> None:
    """Raise UserError where options of --from are given without it."""
    names = {"shapes": "--shape", "dtypes": "--dtype", "axes": "--axes", "scalars": "--scalar"}
    names |= {"constants": "--constant", "settings": "--set"}
    given = [names[key] for key, value in options.items() if value]
    given += [f"--{key}" for key, value in more.items() if value]
    if given:
        raise UserError(f"{given[0]}: only with --from")
