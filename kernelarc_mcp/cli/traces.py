"""Traces of an evaluation: what `evaluate --traces` writes."""

import platform
import subprocess
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from kernelarc_guard.formats.results import traces_of
from kernelarc_guard.formats.traces import Environment, Form, append_traces
from kernelarc_guard.formats.writing import plain_workload
from kernelarc_guard.solution import reference_solution
from kernelarc_mcp.cli.console import UserError
from kernelarc_mcp.evaluation import Case, Evaluation

_LIBRARIES = ("torch", "triton", "numpy", "apache-tvm-ffi", "cupy-cuda12x", "cupy-cuda13x")


def write_traces(
    file: Path, evaluation: Evaluation, lines: list[dict[str, Any]], case: Case, form: Form
) -> list[str]:
    """Add an evaluation's traces to a file; returns what is missing there, one line each.

    `lines` are the problem's workloads as they stand in their file.
    """
    workloads = {one["uuid"]: one for one in map(plain_workload, lines)}
    failed = None
    if evaluation.verdict in ("REJECT", "REVERT") and evaluation.stage != "timing":
        failed = (evaluation.reason, evaluation.stage, evaluation.detail)
    traces, left = traces_of(
        evaluation.problem,
        evaluation.solution,
        workloads,
        evaluation.workloads,
        failed=failed,
        reference=case.record.digest == reference_solution(case.problem.definition).digest,
        environment=_environment(evaluation.device),
        form=form,
    )
    try:
        append_traces(file, traces)
    except OSError as error:
        raise UserError(f"--traces: {file}: cannot be written: {error.strerror}") from None
    if not left:
        return []
    untimed = "1 workload that was" if len(left) == 1 else f"{len(left)} workloads that were"
    return [f"--traces: no trace of {untimed} not timed: {', '.join(left)}"]


def _environment(device: str) -> Environment:
    libraries: dict[str, str] = {"python": platform.python_version()}
    for name in _LIBRARIES:
        try:
            libraries[name] = version(name)
        except PackageNotFoundError:
            continue
    return Environment(hardware=_hardware(device), libs=libraries)


def _hardware(device: str) -> str:
    kind, _, index = device.partition(":")
    if kind == "cuda":
        asked = ["nvidia-smi", "--query-gpu=name", "--format=csv,noheader", f"--id={index or 0}"]
        try:
            said = subprocess.run(asked, capture_output=True, text=True, timeout=30, check=True)
            return said.stdout.strip().splitlines()[0].replace(" ", "_")
        except (OSError, subprocess.SubprocessError, IndexError):
            return device
    try:
        text = Path("/proc/cpuinfo").read_text()
    except OSError:
        return platform.machine()
    names = [line.partition(":")[2].strip() for line in text.splitlines() if "model name" in line]
    return names[0] if names and names[0] else platform.machine()
