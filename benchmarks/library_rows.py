"""The raw file of `library_table.py`, and its table; nothing is measured here."""

import math
from collections.abc import Sequence
from pathlib import Path

from pydantic import ValidationError

from kernelarc_guard.model import Model


class RowsError(ValueError):
    """A raw file that cannot be used; one line."""


class Workload(Model):
    """One workload of one solution, times in microseconds by the guard's clock."""

    uuid: str
    axes: dict[str, int]
    max_absolute_error: float | None
    reference_us: float | None
    solution_us: float | None
    bound_us: float | None
    """What the device needs at least for the bytes and operations that were counted."""
    limited_by: str
    bound_source: str


class Judged(Model):
    """One solution of one problem on one device."""

    device: str
    problem: str
    operator_class: str
    problem_digest: str
    solution: str
    """Its file, or `reference`."""
    solution_digest: str
    right: bool
    verdict: str
    """Empty where it is right; `refused` where the guard could not judge, `none` where it ended."""
    reason: str
    detail: str
    workloads: list[Workload]
    observations: list[str]
    protection: dict[str, str]
    pairs: int
    at: str
    seconds: float

    @property
    def key(self) -> tuple[str, str, str]:
        """Return what is not measured twice."""
        return self.device, self.problem_digest, self.solution_digest

    @property
    def judged(self) -> bool:
        """Say whether the guard could judge it at all."""
        return self.verdict not in ("refused", "none")


def read_rows(path: Path) -> list[Judged]:
    """Return the rows of a raw file, none where there is no file; RowsError names a bad line."""
    if not path.exists():
        return []
    rows = []
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
        try:
            rows.append(Judged.model_validate_json(line))
        except ValidationError as error:
            fault = error.errors(include_url=False)[0]
            where = ".".join(map(str, fault["loc"])) or "line"
            raise RowsError(f"{path.name}:{number}: {where}: {fault['msg']}") from None
    return rows


def append_row(path: Path, row: Judged) -> None:
    """Add one row to a raw file."""
    with path.open("a", encoding="utf-8") as file:
        file.write(row.model_dump_json() + "\n")


def print_table(rows: Sequence[Judged]) -> None:
    """Print one line per solution; of a solution measured twice the last row."""
    last = {row.key: row for row in rows}
    print(
        "| problem | class | solution | right | reference us | solution us | over the reference |"
        " bound us | limited by | of the bound |"
    )
    print("|---|---|---|---|---|---|---|---|---|---|")
    for row in sorted(last.values(), key=lambda row: row.problem):
        print(_line(row))
    print()
    print("Times and bounds are geometric means over a problem's workloads. Bounds:")
    sources = {one.bound_source for row in last.values() for one in row.workloads}
    for source in sorted(sources - {""}):
        print(f"* {source}")
    for row in last.values():
        if not row.right:
            print(f"* {row.problem} {row.solution}: {row.verdict} {row.reason}: {row.detail}")


def _line(row: Judged) -> str:
    reference = _mean([one.reference_us for one in row.workloads])
    solution = _mean([one.solution_us for one in row.workloads])
    bound = _mean([one.bound_us for one in row.workloads])
    sides = sorted({one.limited_by for one in row.workloads} - {""})
    right = "yes" if row.right else "no" if row.judged else "not judged"
    return (
        f"| {row.problem} | {row.operator_class} | {row.solution} | {right} |"
        f" {_number(reference)} | {_number(solution)} | {_ratio(reference, solution, 'x')} |"
        f" {_number(bound)} | {', '.join(sides)} | {_ratio(bound, solution, '%')} |"
    )


def _mean(values: list[float | None]) -> float | None:
    """Return the geometric mean; None where a value is missing or not positive."""
    logs = [math.log(value) for value in values if value is not None and value > 0]
    return math.exp(math.fsum(logs) / len(logs)) if logs and len(logs) == len(values) else None


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.4g}"


def _ratio(above: float | None, below: float | None, unit: str) -> str:
    if above is None or below is None:
        return ""
    return f"{above / below:.2f}x" if unit == "x" else f"{above / below:.1%}"
