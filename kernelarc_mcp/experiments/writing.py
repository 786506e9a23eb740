"""Writing an experiment's report: one HTML page that needs nothing else, Markdown and JSON."""

from pathlib import Path
from typing import Any, Final

from kernelarc_mcp.experiments.charts import charts
from kernelarc_mcp.experiments.summary import Summary, spread
from kernelarc_mcp.pages.writing import Pages, write_files

_PAGES: Final = Pages(
    "kernelarc_mcp.experiments",
    {
        "times": lambda value: "" if value is None else f"{value:.3f}",
        "interval": lambda mean: "" if mean is None else spread(mean).strip(" ()"),
        "p": lambda value: "" if value is None else f"{value:.3g}",
        "memory": lambda arm: f"bounded {arm.records}" if arm.memory == "bounded" else arm.memory,
        "onoff": lambda value: "on" if value else "off",
    },
)


def write_report(folder: Path, summary: Summary) -> list[Path]:
    """Write the three files into `folder`, over those of an earlier report; OSError where it fails."""
    return write_files(
        folder,
        {
            "experiment.html": html(summary),
            "experiment.md": markdown(summary),
            "experiment.json": summary.model_dump_json(indent=1) + "\n",
        },
    )


def html(summary: Summary) -> str:
    """Return the page; every number of its charts is in a table too."""
    return _PAGES.html("experiment.html.j2", _context(summary), charts(summary))


def markdown(summary: Summary) -> str:
    """Return the same without charts, for a place where text is read."""
    return _PAGES.text("experiment.md.j2", _context(summary))


def _context(summary: Summary) -> dict[str, Any]:
    asked = len(summary.experiment.arms) * summary.experiment.runs
    finished = sum(arm.finished for arm in summary.arms)
    return {"s": summary, "e": summary.experiment, "asked": asked, "finished": finished}
