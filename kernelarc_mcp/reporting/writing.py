"""Writing a report: one HTML page that needs nothing else, Markdown, JSON and CSV."""

import csv
import io
from functools import partial
from pathlib import Path
from typing import Any, Final

from kernelarc_mcp.cost.report import UNKNOWN
from kernelarc_mcp.pages.writing import Pages, write_files
from kernelarc_mcp.report import SubmissionReport
from kernelarc_mcp.reporting.ahead import ahead_lines
from kernelarc_mcp.reporting.approaches import MOST_APPROACHES, approaches
from kernelarc_mcp.reporting.attempts import conclusion_line, drafts_line, models_of, reason_of
from kernelarc_mcp.reporting.baselines import baseline_lines
from kernelarc_mcp.reporting.charts import charts, hollow
from kernelarc_mcp.reporting.document import Document
from kernelarc_mcp.reporting.facts import device_lines, device_paragraph
from kernelarc_mcp.reporting.glossary import VERDICTS, glossary, says
from kernelarc_mcp.reporting.kernel import kernel_files
from kernelarc_mcp.reporting.lead import dates, lead, moment, title
from kernelarc_mcp.reporting.problem import problem_lines
from kernelarc_mcp.reporting.repeat import commands, needed
from kernelarc_mcp.reporting.sure import sure_lines
from kernelarc_mcp.reporting.thinning import thinned
from kernelarc_mcp.reporting.workloads import axes_of, gain_over_seed, of_bound, times_as_fast

MOST_ROWS: Final = 200
"""Attempts listed in a page beside all KEEPs; the CSV has all of them."""
MOST_DOTS: Final = 200


def write_report(folder: Path, document: Document) -> list[Path]:
    """Write the four files into `folder`, over those of an earlier report; OSError where it fails."""
    return write_files(
        folder,
        {
            "report.html": html(document),
            "report.md": markdown(document),
            "report.json": as_json(document),
            "submissions.csv": submissions_csv(document),
        },
    )


def html(document: Document) -> str:
    """Return the page; every number of its charts is in a table too."""
    return _PAGES.html("report.html.j2", _context(document), charts(document))


def markdown(document: Document) -> str:
    """Return the same without charts, for a place where text is read."""
    return _PAGES.text("report.md.j2", _context(document))


def as_json(document: Document) -> str:
    """Return the whole document."""
    return document.model_dump_json(indent=1) + "\n"


def submissions_csv(document: Document) -> str:
    """Return every attempt, a line each, with a header."""
    text = io.StringIO()
    names = list(SubmissionReport.model_fields)
    writer = csv.DictWriter(text, names, lineterminator="\n")
    writer.writeheader()
    for row in document.submissions:
        writer.writerow(row.model_dump(mode="json"))
    return text.getvalue()


def _context(document: Document) -> dict[str, Any]:
    submissions = document.submissions
    shown = {row.submission for row in submissions[-MOST_ROWS:]}
    listed = [row for row in submissions if row.submission in shown or row.verdict == "KEEP"]
    reasons: dict[tuple[str, str], int] = {}
    for row in submissions:
        if row.verdict:
            key = (row.verdict, row.reason or "")
            reasons[key] = reasons.get(key, 0) + 1
    tried = approaches(document)
    occurring = {row.verdict for row in submissions}
    total = document.costs.total
    told = total.tokens != UNKNOWN or total.usd != UNKNOWN
    unsaid, device = device_paragraph(document)
    return {
        "d": document,
        "title": title(document),
        "dates": dates(document),
        "lead": lead(document),
        "device": device,
        "unsaid": unsaid,
        "problem_lines": problem_lines(document.about),
        "kept": [step for step in document.records if step.agent is not None],
        "baselines": baseline_lines(document),
        "sure": sure_lines(document),
        "ahead": ahead_lines(document),
        "approaches": tried[:MOST_APPROACHES],
        "approaches_left": len(tried) - MOST_APPROACHES,
        "kernel": kernel_files(document),
        "listed": listed,
        "device_lines": device_lines(document),
        "dots": thinned(document.roofline.dots, MOST_DOTS, lambda dot: dot.bytes_per_second),
        "costs": [*document.costs.agents, total] if told else [],
        "needed": needed(document),
        "commands": commands(document),
        "left_out": len(submissions) - len(listed),
        "reasons": sorted(reasons.items(), key=lambda item: -item[1]),
        "verdicts": [(name, *told) for name, told in VERDICTS.items() if name in occurring],
        "says": says,
        "drafts": drafts_line(document),
        "reason_of": partial(reason_of, document),
        "models_of": partial(models_of, document),
        "hollow": any(hollow(point) for point in document.progress),
        "glossary": glossary(),
        "over": times_as_fast,
        "gain": gain_over_seed,
        "of_bound": of_bound,
    }


def _spread(view: Any) -> str:
    return "" if view is None else f"{view.lower:.3f} to {view.upper:.3f}"


_PAGES: Final = Pages(
    "kernelarc_mcp.reporting",
    {
        "times": lambda value: "" if value is None else f"{value:.3f}x",
        "roughly": lambda value: "" if value is None else f"{value:.3g}x",
        "number": lambda value: "" if value is None else f"{value:.4g}",
        "giga": lambda value: f"{value / 1e9:.4g}",
        "share": lambda value: "unknown" if value is None else f"{100 * value:.3g} %",
        "spread": _spread,
        "moment": moment,
        "axes": axes_of,
        "conclusion": conclusion_line,
        "cell": lambda text: " ".join(str(text).split()).replace("|", "\\|"),
    },
)
