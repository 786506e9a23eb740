"""Judgements recorded outside of a campaign, one JSON document a line, and deciding them again."""

import os
from collections.abc import Iterator
from pathlib import Path

from pydantic import ValidationError

from kernelarc_guard.decide import Parameters
from kernelarc_guard.model import Model
from kernelarc_guard.protocol import Result
from kernelarc_mcp.host.recheck import recheck


class Recorded(Model):
    """One judgement with all that its decisions are functions of."""

    problem: str
    planted: float
    """Delay (percent) that was planted in the candidate; 0: identical arms."""
    weights: list[float]
    """Of the workloads."""
    parameters: Parameters
    stake: float
    results: list[Result]
    """The screen and, where there was one, the confirmation."""


class RecordedError(ValueError):
    """A file of judgements that cannot be read."""


def append_recorded(path: Path, one: Recorded) -> None:
    """Add a judgement to a file; on disk when this returns."""
    with path.open("a", encoding="utf-8") as file:
        file.write(one.model_dump_json() + "\n")
        file.flush()
        os.fsync(file.fileno())


def read_recorded(path: Path) -> Iterator[Recorded]:
    """Read a file of judgements line by line; RecordedError names the line that is none."""
    try:
        with path.open(encoding="utf-8") as file:
            for number, line in enumerate(file, start=1):
                try:
                    yield Recorded.model_validate_json(line)
                except ValidationError as error:
                    said = error.errors(include_url=False)[0]["msg"]
                    raise RecordedError(f"{path}: line {number}: {said}") from None
    except (OSError, UnicodeDecodeError) as error:
        raise RecordedError(f"{path}: {error}") from None


def verify_recorded(path: Path) -> tuple[int, list[str]]:
    """Decide every judgement of a file again; return how many there are and what does not agree."""
    count, findings = 0, []
    for count, one in enumerate(read_recorded(path), start=1):
        for result in one.results:
            found = recheck(result, one.weights, one.parameters, one.stake)
            findings += [f"line {count}, {result.op}: {finding}" for finding in found]
        if not one.results or one.results[-1].verdict is None:
            findings.append(f"line {count}: it has no verdict")
    return count, findings
