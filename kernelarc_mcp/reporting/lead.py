"""What a report says first: its title and the result in a few sentences."""

from datetime import UTC, datetime
from typing import Final

from kernelarc_mcp.reporting.document import Document
from kernelarc_mcp.reporting.workloads import spread_over_workloads

_MANY: Final = 3
"""More dtypes are not listed in a title."""
_UNNAMED: Final = "campaign"


def title(document: Document) -> str:
    """Return what was searched on what, and how far it came."""
    dtypes = document.about.dtypes
    kinds = ", ".join(dtypes) if 0 < len(dtypes) <= _MANY else "mixed dtypes"
    place = document.measured_on.gpu or document.device
    return f"{document.problem} ({kinds}) on {place}: {_headline(document)}"


def dates(document: Document) -> str:
    """Return which campaign this is and from when to when; a name that says nothing is left out."""
    name = "" if document.campaign == _UNNAMED else f" {document.campaign}"
    created, written = moment(document.created_at), moment(document.written_at)
    until = ""
    if document.last_verdict_at:
        took = datetime.fromisoformat(document.last_verdict_at) - datetime.fromisoformat(
            document.created_at
        )
        until = (
            f", last verdict {moment(document.last_verdict_at)} ({_lasting(took.total_seconds())})"
        )
    return f"Campaign{name} of {created}{until}; report of {written}, kernelarc-mcp {document.version}."


def moment(at: str) -> str:
    """Return a point in time to the minute, in UTC."""
    return datetime.fromisoformat(at).astimezone(UTC).strftime("%Y-%m-%d %H:%M UTC")


def _lasting(seconds: float) -> str:
    if seconds < 120:
        return f"after {seconds:.0f} s"
    if seconds < 2 * 3600:
        return f"after {seconds / 60:.0f} min"
    return f"after {seconds / 3600:.1f} h"


def lead(document: Document) -> str:
    """Return the result, how it differs by workload, and how the search ended."""
    best = document.record
    used, planned = document.attempts_used, document.attempts
    if best.agent is None:
        return (
            f"No candidate was proven faster than the first record. {used} of {planned} attempts"
            " were used."
        )
    said = f"{best.submission} of {best.agent} is {best.speedup:.3f} times as fast as the seed"
    if (over := best.over_seed) is not None:
        said += (
            f" (95 % interval {over.lower:.3f} to {over.upper:.3f},"
            f" {over.pairs} pairs of fresh processes)"
        )
    said += "."
    if best.gain is not None and best.lower is not None:
        said += f" Over the record before it: {best.gain:.3f} times, more than {best.lower:.3f} is proven."
    by_workload = spread_over_workloads(document.workloads)
    parts = (said, _rival(document), by_workload, _ended(document))
    return " ".join(part for part in parts if part)


def _headline(document: Document) -> str:
    best = document.record
    if best.agent is None:
        return "no faster kernel was proven"
    return f"{best.speedup:.2f} times as fast as the seed"


def _rival(document: Document) -> str:
    """Return how the record stands beside the fastest line to beat; or nothing, where there is none."""
    known = [(one.speedup, one.name) for one in document.baselines if one.speedup is not None]
    if not known:
        return ""
    speedup, name = max(known)
    return (
        f"Roughly {document.record.speedup / speedup:.2g} times as fast as {name}, the fastest line to"
        " beat (a quotient, not measured side by side)."
    )


def _ended(document: Document) -> str:
    used, planned = document.attempts_used, document.attempts
    found = document.record.at_attempt
    later = [row for row in document.submissions if row.number > found]
    judged = sum(row.verdict is not None for row in later)
    waiting = len(later) - judged
    withdrawn = any(step.withdrawn and step.at_attempt > found for step in document.records)
    spent = f"all {planned}" if used >= planned else f"{used} of {planned}"
    said = f"Found at attempt {found}; {spent} attempts are spent"
    if judged:
        gain = "gain that still stands" if withdrawn else "confirmed gain"
        said += f", the {'last ' if not waiting else ''}{judged} {'' if not waiting else 'judged since '}"
        said += f"brought no {gain}"
    return f"{said}, {waiting} without a verdict yet." if waiting else f"{said}."
