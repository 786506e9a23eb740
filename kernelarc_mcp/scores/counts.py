"""Counts of a problem's work that the guard made once, kept beside a campaign: they are facts of the problem."""

from contextlib import suppress
from pathlib import Path
from typing import Final

from pydantic import ValidationError

from kernelarc_guard.inquiries import WorkCount
from kernelarc_guard.model import Model
from kernelarc_guard.problem import Problem
from kernelarc_guard.rulers import traffic

FILE: Final = "counted.json"


class Kept(Model):
    """What the file holds."""

    problem_digest: str
    work: list[WorkCount]


def keep_counts(folder: Path, problem: Problem, work: list[WorkCount]) -> None:
    """Keep the counts in a campaign's directory; one that cannot be written keeps none."""
    kept = Kept(problem_digest=problem.digest, work=work)
    with suppress(OSError):
        (folder / FILE).write_text(kept.model_dump_json() + "\n", encoding="utf-8")


def counts_of(folder: Path, problem: Problem) -> list[WorkCount]:
    """Return the kept counts of this problem, else its bytes alone, with unknown operations."""
    with suppress(OSError, ValidationError):
        kept = Kept.model_validate_json((folder / FILE).read_bytes())
        if kept.problem_digest == problem.digest:
            return kept.work
    return [
        WorkCount(
            uuid=workload.uuid,
            read_bytes=read,
            written_bytes=written,
            operations=None,
            other_operations=None,
            how="not counted yet",
        )
        for workload, (read, written) in zip(problem.workloads, traffic(problem), strict=True)
    ]
