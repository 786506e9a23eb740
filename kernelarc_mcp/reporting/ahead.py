"""What to do next: what a report's own numbers say of where gain is left and what hides it."""

import math
from collections.abc import Sequence
from typing import Final

from kernelarc_mcp.report import SubmissionReport
from kernelarc_mcp.reporting.document import Document
from kernelarc_mcp.reporting.workloads import WorkloadRow, axes_of, of_bound

_NEAR: Final = 0.9
"""From this share of its bound on a workload has little left to give."""
_SHOWN: Final = 3
"""Attempts or workloads named in a sentence."""
_UNEVEN: Final = 2.0
"""A workload this many times as noisy as the quietest is named."""


def ahead_lines(document: Document) -> list[str]:
    """Return a sentence or more for each thing that can be done, the most promising first."""
    return [*_headroom(document), *_undecided(document), *_noise(document), *_going_on(document)]


def undecided(document: Document) -> list[SubmissionReport]:
    """Return attempts that measured faster than their record by less than could be proven, best first."""
    calibration = document.calibration
    if calibration is None or calibration.resolution is None:
        return []
    most = math.exp(calibration.resolution / 100)
    found = [
        row
        for row in document.submissions
        if row.speedup is not None and 1 < row.speedup < most and row.verdict not in (None, "KEEP")
    ]
    return sorted(found, key=lambda row: -(row.speedup or 0.0))


def _headroom(document: Document) -> list[str]:
    known = [(row, share) for row in document.workloads if (share := of_bound(row)) is not None]
    if not known or len(known) < len(document.workloads):
        return []
    left = sorted((one for one in known if one[1] < _NEAR), key=lambda one: one[1])
    if not left:
        return [
            f"Every workload reaches {100 * _NEAR:.0f} % or more of what the device's rates allow: little"
            " is left without moving fewer bytes or doing fewer operations."
        ]
    weight = sum(row.weight for row, _ in known)
    most = math.exp(sum(-row.weight * math.log(min(1.0, share)) for row, share in known) / weight)
    named = "; ".join(f"{axes_of(row)} ({100 * share:.0f} %)" for row, share in left[:_SHOWN])
    more = f" and {len(left) - _SHOWN} more" if len(left) > _SHOWN else ""
    said = (
        f"Where gain is left: {named}{more} of what the device's rates allow; all workloads at their"
        f" bounds would be {most:.2f} times as fast as now, an upper end: a bound counts bytes and"
        " operations, not what starting a kernel takes."
    )
    near = [axes_of(row) for row, share in known if share >= _NEAR]
    if near:
        named = "; ".join(near[:_SHOWN])
        more = f" and {len(near) - _SHOWN} more" if len(near) > _SHOWN else ""
        said += f" Little is left on {named}{more}, at {100 * _NEAR:.0f} % or more."
    return [said]


def _undecided(document: Document) -> list[str]:
    found = undecided(document)
    if not found:
        return []
    named = ", ".join(f"{row.submission} {row.speedup:.3f}x" for row in found[:_SHOWN])
    count = f"{len(found)} attempt{' was' if len(found) == 1 else 's were'}"
    return [
        f"What was left open: {count} measured faster than the record by less than the noise lets be"
        f" proven, first {named}. `kernelarc-mcp reproduce DIR {found[0].submission}` judges one again,"
        " best on a device that is quieter or after `kernelarc-mcp calibrate DIR`."
    ]


def _noise(document: Document) -> list[str]:
    spreads = [(row, spread) for row in document.workloads if (spread := _spread(row)) is not None]
    if len(spreads) < 2:
        return []
    row, most = max(spreads, key=lambda one: one[1])
    least = min(spread for _, spread in spreads)
    if most < _UNEVEN * least:
        return []
    return [
        f"What makes the noise: pairs differ most on {axes_of(row)}, by {most:.3g} % (standard deviation);"
        f" on the quietest workload by {least:.2g} %."
    ]


def _spread(row: WorkloadRow) -> float | None:
    """Return by how much (percent) pairs of the record and the seed differ on a workload."""
    over = row.over_seed
    return None if over is None else over.error_percent * math.sqrt(over.pairs)


def _going_on(document: Document) -> list[str]:
    left = document.attempts - document.attempts_used
    if left > 0:
        attempts = f"{left} attempt{'' if left == 1 else 's'}"
        return [f"Going on: {attempts} are left; `kernelarc-mcp serve DIR` goes on."]
    if document.record.agent is None:
        return []
    return [
        "Going on: all attempts are spent. `kernelarc-mcp new` with `--seed record.json` in place of the"
        " seed starts a search from this record (see How to repeat it)."
    ]


def named(rows: Sequence[SubmissionReport], most: int) -> str:
    """Return tickets of some attempts in their order, at most that many."""
    tickets = [row.submission for row in sorted(rows, key=lambda row: row.number)]
    return ", ".join(tickets[:most]) + (", ..." if len(tickets) > most else "")
