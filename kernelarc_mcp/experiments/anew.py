"""Measuring the records of all runs again, in one sitting.

A speedup over the seed depends on what else the machine does: on a busy one a long call is interrupted more
often than a short one. Inside a campaign nothing is decided by it, but runs of different hours are only
compared by numbers that were measured together.
"""

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from pydantic import TypeAdapter, ValidationError

from kernelarc_guard.decide import pair_value
from kernelarc_guard.model import Model
from kernelarc_guard.protocol import Compare, Result
from kernelarc_guard.ratios import Ratio, ratio_of
from kernelarc_guard.solution import Solution
from kernelarc_mcp.experiments.file import ExperimentError
from kernelarc_mcp.experiments.folder import BUILDS, Run, write_whole
from kernelarc_mcp.exporting.candidates import candidates
from kernelarc_mcp.host.campaign import open_campaign
from kernelarc_mcp.host.guard_client import GuardClient

FILE: Final = "anew.json"
PAIRS: Final = 10


class Measured(Model):
    """One solution, measured beside the seed."""

    ratio: Ratio | None
    """Its speed over the seed's; None where it failed this time."""
    failed: str
    """The reason, where it did."""
    at: str
    detail: str = ""
    """What was seen then, in the guard's words."""


_KNOWN: Final = TypeAdapter(dict[str, Measured])


def read_anew(target: Path) -> dict[str, Measured]:
    """Return what was measured again, by the solutions' digests; ExperimentError for a damaged file."""
    path = target / FILE
    if not path.exists():
        return {}
    try:
        return _KNOWN.validate_json(path.read_text(encoding="utf-8"))
    except (OSError, ValidationError) as error:
        raise ExperimentError(f"{path}: cannot be read: {error}") from None


def to_measure(runs: Sequence[Run], known: Mapping[str, Measured]) -> Iterator[tuple[Run, str]]:
    """Yield a run and a ticket for each record that was not measured again yet, in random order.

    Those that stand at the end of their run come first.
    """
    last: dict[str, tuple[Run, str]] = {}
    others: dict[str, tuple[Run, str]] = {}
    for run in runs:
        if not run.campaign.is_dir():
            continue
        campaign = open_campaign(run.campaign)
        try:
            found = candidates(campaign)
        finally:
            campaign.close()
        for ticket in found.records[1:]:
            digest = found.judged[ticket].solution.digest
            if digest not in known:
                (last if ticket == found.records[-1] else others)[digest] = (run, ticket)
    draw = random.Random(1)
    for group in (last, {d: one for d, one in others.items() if d not in last}):
        entries = list(group.values())
        draw.shuffle(entries)
        yield from entries


async def measure(
    runs: Sequence[Run], target: Path, python: str, tell: Callable[[str, Measured], None]
) -> None:
    """Measure all records that were not measured again yet, keeping each as soon as it is there.

    Raises GuardError where the guard cannot measure.
    """
    known = read_anew(target)
    async with GuardClient(python, target / "guard.log") as guard:
        for run, ticket in to_measure(runs, known):
            digest, request = _request(run, ticket, target)
            result = await guard.judge(request, deadline=1800.0)
            known[digest] = measured(request, result)
            write_whole(target / FILE, _KNOWN.dump_json(known, indent=1).decode() + "\n")
            tell(f"{run.arm.name} {run.number} {ticket}", known[digest])


def _request(run: Run, ticket: str, target: Path) -> tuple[str, Compare]:
    campaign = open_campaign(run.campaign)
    try:
        found = candidates(campaign)
        solution: Solution = found.judged[ticket].solution
        requests = campaign.requests(str((target / BUILDS).resolve()))
        seed = found.judged["seed"].solution
        return solution.digest, requests.compare("anew", seed, solution, pairs=PAIRS, blocks=1)
    finally:
        campaign.close()


def measured(request: Compare, result: Result) -> Measured:
    """Return what a comparison of the seed with a record says."""
    at = datetime.now(UTC).isoformat(timespec="seconds")
    if result.verdict is not None:
        return Measured(ratio=None, failed=result.reason or "", at=at, detail=result.detail)
    weights = request.problem.weights()
    values = [
        pair_value([(block.record, block.candidate) for block in pair.blocks], weights)
        for pair in result.pairs
    ]
    return Measured(ratio=ratio_of(values), failed="", at=at)
