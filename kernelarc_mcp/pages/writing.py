"""Writing a report's files: an HTML page that needs nothing else, and Markdown, from templates."""

import json
from collections.abc import Callable, Mapping
from functools import lru_cache
from importlib.resources import files
from pathlib import Path
from typing import Any, Final

from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined

Options = dict[str, Any]
"""One chart, for ECharts: plain data, drawn where the page is opened."""
Filters = Mapping[str, Callable[..., Any]]
_HERE: Final = "kernelarc_mcp.pages"


class Pages:
    """The templates of a package, which may extend `page.html.j2`, with its own filters."""

    def __init__(self, package: str, filters: Filters) -> None:
        """Read templates of `package` when they are asked for."""
        self._environment = Environment(
            loader=ChoiceLoader([PackageLoader(package), PackageLoader(_HERE)]),
            autoescape=lambda name: name is not None and name.endswith(".html.j2"),
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
            keep_trailing_newline=True,
        )
        self._environment.filters |= filters

    def html(self, name: str, context: Mapping[str, Any], charts: Mapping[str, Options]) -> str:
        """Return a page; its charts, by the id of their place, are drawn by the library inside it."""
        return self._environment.get_template(name).render(
            context,
            charts=list(charts),
            # Inside <script> nothing may look like its end.
            options=json.dumps(charts, allow_nan=False).replace("<", "\\u003c"),
            library=_library() if charts else "",
        )

    def text(self, name: str, context: Mapping[str, Any]) -> str:
        """Return a text without charts."""
        return self._environment.get_template(name).render(context)


def write_files(folder: Path, contents: Mapping[str, str]) -> list[Path]:
    """Write files by their names, over those of an earlier report; OSError where it fails."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in contents.items():
        (folder / name).write_text(content, encoding="utf-8")
    return [folder / name for name in contents]


@lru_cache(maxsize=1)
def _library() -> str:
    text = files("kernelarc_mcp").joinpath("static", "echarts.min.js").read_text("utf-8")
    return text.replace("</script", "<\\/script")
