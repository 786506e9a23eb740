"""Writing an experiment's report: one HTML page that needs nothing else, Markdown and JSON."""

import json
from functools import lru_cache
from importlib.resources import files
from pathlib import Path
from typing import Any, Final

from jinja2 import Environment, PackageLoader, StrictUndefined

from kernelarc_mcp.experiments.charts import charts
from kernelarc_mcp.experiments.summary import Summary, spread

NAMES: Final = ("experiment.html", "experiment.md", "experiment.json")


def write_report(folder: Path, summary: Summary) -> list[Path]:
    """Write the three files into `folder`, over those of an earlier report; OSError where it fails."""
    folder.mkdir(parents=True, exist_ok=True)
    contents = (html(summary), markdown(summary), summary.model_dump_json(indent=1) + "\n")
    paths = [folder / name for name in NAMES]
    for path, content in zip(paths, contents, strict=True):
        path.write_text(content, encoding="utf-8")
    return paths


def html(summary: Summary) -> str:
    """Return the page; charts are drawn by the library inside it, every number is in a table too."""
    library = files("kernelarc_mcp").joinpath("static", "echarts.min.js").read_text("utf-8")
    drawn = charts(summary)
    return (
        _templates()
        .get_template("experiment.html.j2")
        .render(
            _context(summary),
            charts=list(drawn),
            # Inside <script> nothing may look like its end.
            options=json.dumps(drawn, allow_nan=False).replace("<", "\\u003c"),
            library=library.replace("</script", "<\\/script") if drawn else "",
        )
    )


def markdown(summary: Summary) -> str:
    """Return the same without charts, for a place where text is read."""
    return _templates().get_template("experiment.md.j2").render(_context(summary))


def _context(summary: Summary) -> dict[str, Any]:
    asked = len(summary.experiment.arms) * summary.experiment.runs
    finished = sum(arm.finished for arm in summary.arms)
    return {"s": summary, "e": summary.experiment, "asked": asked, "finished": finished}


@lru_cache(maxsize=1)
def _templates() -> Environment:
    environment = Environment(
        loader=PackageLoader("kernelarc_mcp.experiments", "templates"),
        autoescape=lambda name: name is not None and name.endswith(".html.j2"),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters |= {
        "times": lambda value: "" if value is None else f"{value:.3f}",
        "interval": lambda mean: "" if mean is None else spread(mean).strip(" ()"),
        "p": lambda value: "" if value is None else f"{value:.3g}",
        "memory": lambda arm: f"bounded {arm.records}" if arm.memory == "bounded" else arm.memory,
        "onoff": lambda value: "on" if value else "off",
    }
    return environment
