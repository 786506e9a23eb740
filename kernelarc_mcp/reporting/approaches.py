"""What was tried, by approach: how often, how far each came, and what it failed of."""

from collections import Counter
from collections.abc import Sequence
from typing import Final

from kernelarc_guard.model import Model
from kernelarc_mcp.report import RecordReport, SubmissionReport
from kernelarc_mcp.reporting.document import Document

MOST_APPROACHES: Final = 20
_UNNAMED: Final = "not said"
_NAMED: Final = 3
"""Reasons told of one approach."""


class Approach(Model):
    """All attempts whose agents gave the same algorithm."""

    algorithm: str
    dsl: str
    """Languages they were written in."""
    attempts: int
    keeps: int
    kept: float | None
    """Speedup over the seed of the best KEEP that stands, measured beside it."""
    kept_by: str
    other: float | None
    """Of the best other one: its ratio to its record times that record's, not measured side by side."""
    other_by: str
    failed_of: str
    """The commonest reasons of what was not kept, with their counts."""


def approaches(document: Document) -> list[Approach]:
    """Return the approaches, those with the fastest KEEP first, those without a time last."""
    kept = {step.submission: step for step in document.records}
    groups: dict[str, list[SubmissionReport]] = {}
    for row in document.submissions:
        if row.verdict is not None:
            groups.setdefault(" ".join(row.algorithm.split()) or _UNNAMED, []).append(row)
    found = [_approach(name, rows, kept) for name, rows in groups.items()]
    return sorted(found, key=lambda one: (-(one.kept or 0.0), -(one.other or 0.0), one.algorithm))


def _approach(
    name: str, rows: Sequence[SubmissionReport], kept: dict[str, RecordReport]
) -> Approach:
    speeds = {row.submission: speed for row in rows if (speed := _roughly(row, kept)) is not None}
    standing = {name for name in speeds if name in kept and not kept[name].withdrawn}
    best = max(standing, key=lambda name: speeds[name], default="")
    other = max(speeds.keys() - kept.keys(), key=lambda name: speeds[name], default="")
    reasons = Counter(row.reason or "" for row in rows if row.verdict != "KEEP")
    told = [f"{reason} {count}" for reason, count in reasons.most_common(_NAMED)]
    if len(reasons) > _NAMED:
        told.append(
            f"others {sum(reasons.values()) - sum(c for _, c in reasons.most_common(_NAMED))}"
        )
    return Approach(
        algorithm=name,
        dsl=", ".join(sorted({row.dsl for row in rows if row.dsl})),
        attempts=len(rows),
        keeps=sum(row.verdict == "KEEP" for row in rows),
        kept=speeds.get(best),
        kept_by=best,
        other=speeds.get(other),
        other_by=other,
        failed_of=", ".join(told),
    )


def _roughly(row: SubmissionReport, kept: dict[str, RecordReport]) -> float | None:
    own, against = kept.get(row.submission), kept.get(row.against)
    if own is not None:
        return own.speedup
    return row.speedup * against.speedup if row.speedup is not None and against else None
