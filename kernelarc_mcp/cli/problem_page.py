"""One problem as text: the interface that a candidate must have, what is right, and the workloads."""

from pathlib import Path

from kernelarc_guard.axes import ConstAxis, ExprAxis
from kernelarc_guard.problem import Problem, TensorSpec
from kernelarc_guard.solution import SolutionError, seed_solution
from kernelarc_guard.words import axes_in_words
from kernelarc_mcp.cli.console import out
from kernelarc_mcp.host.correctness import correctness_view
from kernelarc_mcp.host.envelope import languages_of
from kernelarc_mcp.host.interface import interface_text

_MOST = 12
"""Workloads that are shown; the file has all."""


def print_page(problem: Problem, device: str) -> None:
    """Print all that whoever writes a candidate for a problem must know."""
    for line in page(problem, device):
        out.print(line, markup=False, highlight=False)


def page(problem: Problem, device: str) -> list[str]:
    """Return the lines of a problem's page."""
    definition = problem.definition
    specs = [*definition.inputs.values(), *definition.outputs.values()]
    right = correctness_view(
        definition.kernelarc,
        {spec.dtype for spec in specs},
        {spec.dtype for spec in definition.outputs.values()},
    )
    return [
        "",
        "INPUTS",
        *(_tensor(name, spec) for name, spec in definition.inputs.items()),
        "OUTPUTS",
        *(_tensor(name, spec) for name, spec in definition.outputs.items()),
        *(["AXES"] if definition.axes else []),
        *(f"- {name}: {_axis(axis)}" for name, axis in definition.axes.items()),
        "WORKLOADS",
        *_workloads(problem),
        "",
        f"RIGHT ({right.tolerance_mode}): {right.means}",
        "",
        "REFERENCE",
        definition.reference.rstrip(),
        "",
        _seed(problem, device),
        "",
        interface_text(definition, languages_of(device)).rstrip(),
    ]


def _tensor(name: str, spec: TensorSpec) -> str:
    shape = "a number" if spec.shape is None else f"[{', '.join(spec.shape)}]"
    said = f": {spec.description}" if spec.description else ""
    return f"- {name} {shape} {spec.dtype}{said}"


def _axis(axis: object) -> str:
    if isinstance(axis, ConstAxis):
        return str(axis.value)
    return f"= {axis.expression}" if isinstance(axis, ExprAxis) else "differs by workload"


def _workloads(problem: Problem) -> list[str]:
    lines = [
        f"- {axes_in_words(one.axes, one.uuid)}: max_atol {one.tolerance.max_atol:g},"
        f" max_rtol {one.tolerance.max_rtol:g}"
        for one in problem.workloads[:_MOST]
    ]
    left = len(problem.workloads) - _MOST
    return [*lines, f"- and {left} more in the workload file"] if left > 0 else lines


def _seed(problem: Problem, device: str) -> str:
    if problem.folder is None:
        return "SEED: the reference itself"
    try:
        seed = seed_solution(Path(problem.folder), problem.definition, device)
    except SolutionError as error:
        return f"SEED: cannot be read: {error}"
    if seed is None:
        return "SEED: the reference itself"
    first = seed.sources[0]
    return f"SEED ({', '.join(seed.spec.languages)}), {first.path}\n{first.content.rstrip()}"
