"""The skill texts and the Claude Code plugin, all generated from `clients/skill/loop.md`.

`python -m kernelarc_mcp.skill` writes the generated files anew in a checkout.
"""

import json
from functools import cache
from pathlib import Path
from typing import Final

from kernelarc_mcp import __version__
from kernelarc_mcp.data import data_dir

NAME: Final = "kernelarc"
DESCRIPTION: Final = (
    "How to optimise a kernel in a KernelArc campaign: the loop of brief, lens, memory, hypothesis, "
    "submission, directive and conclusion. Use it whenever the kernelarc MCP server's tools are "
    "there and a kernel is to be made faster."
)
_MADE = "<!-- Generated from clients/skill/loop.md; change that file. -->"


@cache
def loop_text() -> str:
    """Return the source: what an agent does, in Markdown."""
    return (data_dir("clients") / "skill" / "loop.md").read_text(encoding="utf-8")


def skill_text() -> str:
    """Return it as a skill: front matter with name and description, then the text."""
    return f"---\nname: {NAME}\ndescription: {json.dumps(DESCRIPTION)}\n---\n\n{loop_text()}"


def agents_text() -> str:
    """Return it for clients that read AGENTS.md or the like."""
    return f"{_MADE}\n\n{loop_text()}"


def generated() -> dict[str, str]:
    """Return every generated file: path below `clients/` -> text."""
    plugin = "claude-plugin"
    manifest = {
        "name": NAME,
        "version": __version__,
        "description": "Optimise GPU and CPU kernels in a KernelArc campaign.",
        "author": {"name": "KernelArc"},
        "license": "Apache-2.0",
    }
    market = {
        "name": NAME,
        "description": manifest["description"],
        "owner": {"name": "KernelArc"},
        "plugins": [{"name": NAME, "source": "./", "description": manifest["description"]}],
    }
    server = {
        "type": "http",
        "url": "${KERNELARC_URL:-http://127.0.0.1:8765/mcp}",
        "headers": {"Authorization": "Bearer ${KERNELARC_TOKEN}"},
        "timeout": 600_000,
        "alwaysLoad": True,
    }
    return {
        "skill/AGENTS.md": agents_text(),
        f"{plugin}/.claude-plugin/plugin.json": _json(manifest),
        f"{plugin}/.claude-plugin/marketplace.json": _json(market),
        f"{plugin}/.mcp.json": _json({"mcpServers": {NAME: server}}),
        f"{plugin}/skills/{NAME}/SKILL.md": skill_text(),
    }


def _json(document: object) -> str:
    return json.dumps(document, indent=2) + "\n"


def write(folder: Path) -> None:
    """Write the generated files below `folder`."""
    for path, text in generated().items():
        target = folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    write(data_dir("clients"))
