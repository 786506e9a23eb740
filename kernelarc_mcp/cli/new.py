"""`new`: create a campaign, or the problem for one."""

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Annotated

import typer
from pydantic import ValidationError

from kernelarc_guard.formats.authored import Request
from kernelarc_guard.problem import Problem
from kernelarc_guard.solution import read_solution, seed_solution
from kernelarc_mcp.cli.author import (
    Axes,
    Constant,
    DrawWith,
    Dtype,
    Evaluating,
    From,
    Judge,
    OpType,
    ScalarInput,
    Settings,
    Shape,
    author,
    request_from,
    unused,
)
from kernelarc_mcp.cli.campaign_options import (
    MOST_AGENTS,
    GpuSeconds,
    Lenses,
    Money,
    RetentionOption,
    SettingsFile,
    Snapshots,
    WallSeconds,
    and_more,
    doubts,
    given,
    in_words,
    not_here,
    numbered,
    read_settings,
    retention,
)
from kernelarc_mcp.cli.console import UserError, counted, err, out, print_json
from kernelarc_mcp.cli.options import (
    Device,
    GuardPython,
    Json,
    ProblemOption,
    ToleranceMode,
    Workloads,
    chosen_problem,
    guard_python,
)
from kernelarc_mcp.host.host import Host
from kernelarc_mcp.host.settings import CampaignSettings


def create_campaign(
    folder: Path, problem: Problem, settings: CampaignSettings, seed: Path | None = None
) -> list[tuple[str, str]]:
    """Create a campaign and return its agents with their tokens, which are shown only now."""
    definition = problem.definition
    if seed is not None:
        return Host.create(folder, settings, problem, read_solution(seed, definition))
    folder_of = Path(problem.folder) if problem.folder else None
    own = seed_solution(folder_of, definition, settings.device) if folder_of else None
    return Host.create(folder, settings, problem, own)


def settings_from(
    *, file: Path | None = None, read: Mapping[str, object] = MappingProxyType({}), **values: object
) -> CampaignSettings:
    """Return campaign settings; UserError names the one that is not possible.

    Where it is as it was `read` from `file`, the file is named too.
    """
    try:
        return CampaignSettings.model_validate(values)
    except ValidationError as error:
        # What else was not even looked at is no fault of its own.
        faults = [
            one
            for one in error.errors(include_url=False, include_input=False)
            if one["type"] != "default_factory_not_called"
        ]
        fault = faults[0]
        why = in_words(fault)
        where = ".".join(str(part) for part in fault["loc"]) or "settings"
        name = str(fault["loc"][0]) if fault["loc"] else why.partition(":")[0]
        if name in read and read[name] is values[name]:
            where = f"--settings {file}: {where}"
        raise UserError(f"{where}: {why}{and_more(len(faults) - 1)}") from None


def _author(request: Request, python: str, device: str, judge: bool, as_json: bool) -> None:
    problem, seen = author(request, python, device, judge)
    if as_json:
        print_json({"problem": problem.definition.name, "folder": problem.folder, "seen": seen})
        return
    out.print(f"Problem {problem.definition.name}: {problem.folder}", markup=False)
    out.print(
        "Checked: zeros fail, the inputs matter, and the reference agrees with itself.",
        *seen,
        sep="\n",
        markup=False,
    )
    out.print(f"Next: kernelarc-mcp new CAMPAIGN --problem {problem.folder}", markup=False)


def place_of(device: str) -> str:
    """Return the torch device of a device's name."""
    return device if device.startswith("cuda") else "cpu"


def new(
    folder: Annotated[
        Path,
        typer.Argument(
            metavar="DIR", help="Directory to create the campaign in, or with --from the problem."
        ),
    ],
    problem: ProblemOption = "",
    agents: Annotated[
        int | None,
        typer.Option(
            min=1, max=MOST_AGENTS, help="Expected agents: agent-1 to agent-N.", show_default="1"
        ),
    ] = None,
    attempts: Annotated[
        int | None,
        typer.Option(min=1, help="Submissions of all agents together.", show_default="100"),
    ] = None,
    device: Device = "cpu",
    pool: Annotated[
        bool, typer.Option("--pool", help="One pool of attempts instead of equal shares.")
    ] = False,
    r_draft: Annotated[
        int | None,
        typer.Option(
            "--r-draft", min=1, help="Plateau length that forces a draft.", show_default="5"
        ),
    ] = None,
    lens: Lenses = None,
    snapshots: Snapshots = None,
    retained: RetentionOption = None,
    wall_seconds: WallSeconds = None,
    gpu_seconds: GpuSeconds = None,
    money: Money = None,
    more: SettingsFile = None,
    name: Annotated[
        str, typer.Option(help="Campaign name.", show_default="the directory's name")
    ] = "",
    seed: Annotated[
        Path | None,
        typer.Option(help="Solution to start from.", show_default="the problem's own seed"),
    ] = None,
    memory: Annotated[str, typer.Option(help="Memory file shared with other campaigns.")] = "",
    nurseries: Annotated[
        int | None,
        typer.Option(
            min=1,
            max=100,
            help="Nurseries of the campaign's calibration; 3 or more reveal a shared bias.",
            show_default="1",
        ),
    ] = None,
    canary_rate: Annotated[
        float | None,
        typer.Option(
            "--canary-rate",
            min=0,
            max=1,
            help="Canaries per judged submission; 0: none.",
            show_default="0.1",
        ),
    ] = None,
    workloads: Workloads = "workload.jsonl",
    tolerance: ToleranceMode = None,
    source: From = "",
    shape: Shape = None,
    dtype: Dtype = None,
    axes: Axes = None,
    scalar: ScalarInput = None,
    constant: Constant = None,
    draw: DrawWith = "",
    settings_: Settings = None,
    evaluating: Evaluating = False,
    op_type: OpType = "",
    judge: Judge = True,
    guard: GuardPython = "",
    as_json: Json = False,
) -> None:
    """Create a campaign, or with --from a problem. Prints one bearer token per agent, once."""
    options = {
        "shapes": shape,
        "dtypes": dtype,
        "axes": axes,
        "scalars": scalar,
        "constants": constant,
        "settings": settings_,
    }
    if source:
        if problem:
            raise UserError("new: give --problem for a campaign, or --from for a problem")
        also = {"draw": draw, "evaluating": evaluating, "op_type": op_type, "name": name}
        request = request_from(source, folder, options, device=place_of(device), **also)
        _author(request, guard_python(guard), device, judge, as_json)
        return
    unused(options, draw=draw, eval=evaluating, op_type=op_type)
    if not problem:
        raise UserError("new: give --problem for a campaign, or --from for a problem")
    read = chosen_problem(problem, workloads, tolerance)
    for warning in read.warnings:
        err.print(f"warning: {warning}", markup=False)
    from_file = read_settings(more)
    said: dict[str, object] = {
        "name": folder.resolve().name,
        "agents": ["agent-1"],
        **from_file,
        "device": device,
        "problem": read.definition.name,
        **given(
            name=name or None,
            agents=numbered(agents) if agents else None,
            attempts=attempts,
            pool=pool or None,
            r_draft=r_draft,
            lenses=lens,
            snapshots=snapshots,
            wall_seconds=wall_seconds,
            gpu_seconds=gpu_seconds,
            money=money,
            memory=str(Path(memory).expanduser().resolve()) if memory else None,
            calibration_nurseries=nurseries,
            canary_rate=canary_rate,
        ),
        **retention(retained),
    }
    settings = settings_from(file=more, read=from_file, **said)
    for doubt in [*doubts(settings), *not_here(settings.device)]:
        err.print(f"warning: {doubt}", markup=False)
    tokens = create_campaign(folder, read, settings, seed)
    if as_json:
        print_json(
            {
                "campaign": str(folder.resolve()),
                "tokens": [{"agent": agent, "token": token} for agent, token in tokens],
            }
        )
        return
    out.print(f"Campaign {settings.name} on {settings.problem}: {folder.resolve()}", markup=False)
    out.print("Bearer tokens, shown only now:")
    for number, (agent, token) in enumerate(tokens):
        share = settings.share(number)
        drawn = "from the pool" if share is None else counted(share, "attempt")
        out.print(f"  {agent}  {token}  {drawn}", markup=False)
    out.print(
        f"Next: kernelarc-mcp serve {folder} --http 127.0.0.1:8765 (it takes several campaigns),"
        f" and kernelarc-mcp connect {folder} --http --client claude for each agent's client",
        markup=False,
    )
