"""`doctor`: what this machine offers and what is missing."""

import json
import os
import platform
import shutil
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Annotated, Literal

import typer
from rich.table import Table

from kernelarc_guard.lease import lock_dir
from kernelarc_guard.problem import ProblemError, read_problem
from kernelarc_guard.solution import SolutionError
from kernelarc_mcp.cache import cache_root, calibration_cache
from kernelarc_mcp.calibrations import CalibrationCache, StoredCalibration
from kernelarc_mcp.cli.campaign_doctor import Finding, examine_campaign
from kernelarc_mcp.cli.console import out, print_json
from kernelarc_mcp.cli.device_locks import holders
from kernelarc_mcp.cli.options import GuardPython, Json, guard_python, library, record_of
from kernelarc_mcp.noise import age_of, one_line, warnings

_PROBE = """
import importlib.util, json, sys
found = {"python": sys.version.split()[0]}
for name in ("torch", "numpy", "tvm_ffi", "tree_sitter_cpp", "kernelarc_guard"):
    found[name] = importlib.util.find_spec(name) is not None
if found["torch"]:
    import torch
    found["torch"] = torch.__version__
    found["cuda"] = torch.cuda.device_count()
if found["kernelarc_guard"]:
    from kernelarc_guard.installed import installed
    from kernelarc_guard.sandbox import find_sandbox
    found["toolchain"] = dict(installed("cuda:0" if found.get("cuda") else "cpu"))
    found["protection"] = find_sandbox().describe()
print(json.dumps(found))
"""


def doctor(
    folder: Annotated[
        Path | None,
        typer.Argument(metavar="[DIR]", help="A campaign's directory.", show_default=False),
    ] = None,
    guard: GuardPython = "",
    as_json: Json = False,
) -> None:
    """Say what this machine offers: interpreter, compiler, torch, sandbox, device, cache.

    With DIR say instead what is right and wrong with a campaign's directory, and what to do. Exit status 1:
    something is wrong with it.
    """
    findings = examine(guard_python(guard)) if folder is None else examine_campaign(folder)
    if as_json:
        print_json([finding.model_dump() for finding in findings])
    else:
        _show(findings, _in_short(findings) if folder is None else _of_campaign(folder, findings))
    if folder is not None and any(finding.state == "missing" for finding in findings):
        raise typer.Exit(1)


def _show(findings: list[Finding], in_short: str) -> None:
    colours = {"ok": "green", "warning": "yellow", "missing": "red"}
    table = Table("check", "state", "detail")
    for finding in findings:
        colour = colours[finding.state]
        table.add_row(finding.name, f"[{colour}]{finding.state}[/{colour}]", finding.detail)
    out.print(table)
    out.print(in_short, markup=False)


def _of_campaign(folder: Path, findings: list[Finding]) -> str:
    """Say in a line whether a campaign's directory is in order."""
    for state in ("missing", "warning"):
        if names := [finding.name for finding in findings if finding.state == state]:
            fine = "is not in order" if state == "missing" else "works"
            return f"{folder} {fine}: see {', '.join(names)} above."
    return f"{folder} is in order."


def _in_short(findings: list[Finding]) -> str:
    """Say in a line whether this machine can judge; warnings do not keep it from that."""
    missing = [finding.name for finding in findings if finding.state == "missing"]
    if missing:
        return f"This machine cannot judge yet: see {', '.join(missing)} above."
    gpus = next((one for one in findings if one.name == "cuda devices"), None)
    seen = "its GPUs and its CPU" if gpus is not None and gpus.state == "ok" else "its CPU"
    return f"This machine can judge on {seen}; a warning above costs precision or one language, no more."


def examine(python: str) -> list[Finding]:
    """Return every finding, in the order they matter."""
    return [
        Finding(name="python", state="ok", detail=f"{platform.python_version()} {sys.executable}"),
        *_guard(python),
        _compiler(),
        _cores(),
        _device_locks(),
        _writable("cache", str(cache_root())),
        _problems(),
        *_calibrations(),
    ]


def _guard(python: str) -> list[Finding]:
    try:
        probe = subprocess.run(
            [python, "-I", "-c", _PROBE],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=120,
            check=True,
        )
        found = json.loads(probe.stdout)
    except subprocess.CalledProcessError as error:
        last = (error.stderr.strip().splitlines() or ["no message"])[-1]
        return _broken(f"{python}: {last}")
    except (OSError, subprocess.TimeoutExpired, ValueError) as error:
        return _broken(f"{python}: {error}")
    findings = [Finding(name="guard python", state="ok", detail=f"{found['python']} {python}")]
    for name in ("kernelarc_guard", "torch", "numpy", "tvm_ffi", "tree_sitter_cpp"):
        present = found[name]
        findings.append(
            Finding(
                name=name,
                state="ok" if present else "missing",
                detail=str(present) if isinstance(present, str) else "",
            )
            if present
            else Finding(
                name=name,
                state="warning" if name in {"tvm_ffi", "tree_sitter_cpp"} else "missing",
                detail="install kernelarc-mcp[guard] into that environment",
            )
        )
    if toolchain := found.get("toolchain"):
        told = ", ".join(f"{name} {version}" for name, version in toolchain.items())
        findings.append(Finding(name="toolchain", state="ok", detail=told))
    findings.append(_sandbox(found.get("protection")))
    gpus = int(found.get("cuda", 0))
    findings.append(
        Finding(
            name="cuda devices",
            state="ok" if gpus else "warning",
            detail=str(gpus) if gpus else "0: the CPU backend is what can be measured",
        )
    )
    return findings


def _broken(detail: str) -> list[Finding]:
    return [
        Finding(name="guard python", state="missing", detail=detail),
        Finding(name="sandbox", state="missing", detail="unknown: the guard python does not run"),
    ]


def _sandbox(protection: dict[str, str] | None) -> Finding:
    if protection is None:
        return Finding(name="sandbox", state="missing", detail="unknown without kernelarc_guard")
    detail = ", ".join(f"{key}: {value}" for key, value in protection.items())
    states: dict[str, Literal["ok", "warning", "missing"]] = {
        "bubblewrap+landlock": "ok",
        "landlock": "warning",
    }
    return Finding(
        name="sandbox", state=states.get(protection["sandbox"], "missing"), detail=detail
    )


def _compiler() -> Finding:
    chosen = os.environ.get("CXX", "")
    for name in filter(None, (chosen, "c++", "g++", "clang++")):
        path = shutil.which(name)
        if path is not None:
            return Finding(name="C++ compiler", state="ok", detail=path)
    return Finding(
        name="C++ compiler", state="missing", detail="install g++ or clang++; C++ needs one"
    )


def _cores() -> Finding:
    cores = len(os.sched_getaffinity(0))
    return Finding(
        name="cores",
        state="ok" if cores > 1 else "warning",
        detail=f"{cores}" + ("" if cores > 1 else ": measuring and serving share one core"),
    )


def _device_locks() -> Finding:
    try:
        folder = lock_dir()
    except OSError as error:
        return Finding(name="device locks", state="missing", detail=str(error))
    held = [str(one) for one in holders(folder)]
    return Finding(name="device locks", state="ok", detail="; ".join([str(folder), *held]))


def _writable(name: str, folder: str) -> Finding:
    nearest = os.path.abspath(folder)
    while not os.path.exists(nearest):
        nearest = os.path.dirname(nearest)
    fine = os.access(nearest, os.W_OK)
    return Finding(
        name=name,
        state="ok" if fine else "missing",
        detail=folder if fine else f"{folder}: {nearest} is not writable",
    )


def _problems() -> Finding:
    names = ", ".join(library())
    return Finding(name="problems", state="ok" if names else "missing", detail=names or "none")


def _calibrations() -> list[Finding]:
    """Return a line for each calibration that is believed, and one for all others together.

    Ok are those that `evaluate` would use.
    """
    now = datetime.now(UTC)
    stored = CalibrationCache(calibration_cache()).stored()
    used = [_calibration(one, now) for one in stored if one.believed(now)]
    older = len(stored) - len(used)
    nothing = "none in use: `kernelarc-mcp calibrate --problem NAME` measures the noise here"
    found = used or [Finding(name="calibrations", state="warning", detail=nothing)]
    if older:
        them = "calibration" if older == 1 else "calibrations"
        why = "too old, of another machine, or without rulers"
        said = f"{older} older {them}, not used any more: {why}"
        found.append(Finding(name="older calibrations", state="ok", detail=said))
    return found


def _calibration(one: StoredCalibration, now: datetime) -> Finding:
    seen = warnings(one.calibration, one.machine, now) + _unused(one)
    what = f"problem {one.calibration.problem[:12]}, record {one.record} {one.record_digest[:12]}"
    age = f"{_age(age_of(one.calibration, now))} old"
    return Finding(
        name=f"calibration {one.problem} on {one.calibration.device}",
        state="warning" if seen else "ok",
        detail="; ".join([what, age, one_line(one.calibration), *seen]),
    )


def _unused(one: StoredCalibration) -> list[str]:
    """Return why `evaluate` would not use a believed calibration, one sentence each."""
    folder = library().get(one.problem)
    if folder is None:
        return []
    try:
        problem = read_problem(folder)
        record = record_of(None, problem, one.calibration.device)
    except (ProblemError, SolutionError) as error:
        return [f"The library's {one.problem} cannot be read: {error}."]
    if one.calibration.problem != problem.digest:
        return [f"`evaluate --problem {one.problem}` does not use it: another problem."]
    if one.record_digest != record.digest:
        return [
            f"`evaluate --problem {one.problem}` does not use it without --record:"
            f" its record is {record.name} {record.digest[:12]}."
        ]
    return []


def _age(age: timedelta) -> str:
    hours = int(age.total_seconds() // 3600)
    return f"{hours // 24} days" if hours >= 48 else f"{hours} hours"
