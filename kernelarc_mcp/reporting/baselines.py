"""Lines to beat: how the seed, and roughly the record, stand beside known solutions."""

import re
from typing import Final

from kernelarc_mcp.report import BaselineReport
from kernelarc_mcp.reporting.document import Document

_SPREAD: Final = re.compile(r" \(sd ([\d.e-]+) %\)")


def baseline_lines(document: Document) -> list[str]:
    """Return a sentence for each line to beat that was judged."""
    return [_line(document, known) for known in document.baselines]


def _line(document: Document, known: BaselineReport) -> str:
    if known.speedup is None:
        return f"Line to beat, {known.name}: not measured. {known.detail}"
    # The detail's record is the seed: lines to beat are judged before any candidate is.
    told = (
        known.detail.partition(";")[0]
        .rstrip(".")
        .replace("the record's", "the seed's")
        .replace("over 1 screening pairs", "over one screening pair")
    )
    told = _SPREAD.sub(r"; such pairs differed by \1 % (standard deviation)", told)
    said = f"Line to beat, {known.name}, beside the seed before the search: {told}."
    if document.record.agent is None:
        return said
    over = document.record.speedup / known.speedup
    return (
        f"{said} The record is roughly {over:.2g} times as fast as it: the quotient of both ratios to"
        " the seed, not measured side by side."
    )
