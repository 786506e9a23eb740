"""`problems`: what can be optimised out of the box."""

from rich.table import Table

from kernelarc_guard.problem import read_problem
from kernelarc_mcp.cli.console import out, print_json
from kernelarc_mcp.cli.options import Json, library


def problems(as_json: Json = False) -> None:
    """List the problems that come with the project."""
    found = {name: read_problem(folder) for name, folder in library().items()}
    if as_json:
        print_json(
            [
                {
                    "name": name,
                    "operator_class": problem.definition.operator_class,
                    "workloads": len(problem.workloads),
                    "folder": problem.folder,
                    "description": problem.definition.description,
                }
                for name, problem in found.items()
            ]
        )
        return
    table = Table("problem", "class", "workloads", "description")
    for name, problem in found.items():
        definition = problem.definition
        table.add_row(
            name, definition.operator_class, str(len(problem.workloads)), definition.description
        )
    out.print(table)
