"""The clients without a person: their commands, what they need, and what they say they used."""

import json
import os
import subprocess
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from kernelarc_mcp.connecting.changes import TomlTable, toml_value
from kernelarc_mcp.connecting.door import HttpDoor
from kernelarc_mcp.connecting.forms import form_for

ENVIRONMENT: Final[dict[str, dict[str, str]]] = {
    "claude": {},
    "codex": {},
    # Without it, it connects to no server in a folder that nobody has trusted.
    "gemini": {"GEMINI_CLI_TRUST_WORKSPACE": "true"},
}


@dataclass(frozen=True)
class Usage:
    """What a client says a run used; None where it says nothing."""

    input_tokens: int | None = None
    output_tokens: int | None = None
    cost: float | None = None
    """US dollars."""
    cached_tokens: int | None = None
    """Of the input."""
    model: str = ""
    """Where it names one."""

    def __str__(self) -> str:
        counts = ["?" if one is None else one for one in (self.input_tokens, self.output_tokens)]
        tokens = f"{counts[0]} + {counts[1]} tokens"
        return tokens if self.cost is None else f"{tokens}, {self.cost:.4f} USD"


def claude(prompt: str, model: str, url: str) -> list[str]:
    """Return Claude Code's command: it may use the server and write in its folder."""
    allowed = ["--allowedTools", "mcp__kernelarc", "Read", "Write", "Edit"]
    chosen = ["--model", model] if model else []
    return ["claude", "-p", prompt, "--output-format", "json", *chosen, *allowed]


def codex(prompt: str, model: str, url: str) -> list[str]:
    """Return Codex's command; the server is named in it, since a new folder is not trusted."""
    (table,) = [c for c in form_for("codex", HttpDoor(url)).changes if isinstance(c, TomlTable)]
    entry = f"{'.'.join(table.keys)}={toml_value(table.values)}"
    chosen = ["-m", model] if model else []
    sandbox = ["--sandbox", "workspace-write"]
    return [
        "codex",
        "exec",
        "--json",
        "--skip-git-repo-check",
        *sandbox,
        "-c",
        entry,
        *chosen,
        prompt,
    ]


def gemini(prompt: str, model: str, url: str) -> list[str]:
    """Return Gemini CLI's command; the server's tools are allowed by `prepare`, files by the mode."""
    chosen = ["-m", model] if model else []
    mode = ["--approval-mode", "auto_edit", "--output-format", "json"]
    return ["gemini", "-p", prompt, *mode, *chosen, "--allowed-mcp-server-names", "kernelarc"]


COMMANDS: Final[dict[str, Callable[[str, str, str], list[str]]]] = {
    "claude": claude,
    "codex": codex,
    "gemini": gemini,
}


def prepare(
    command: list[str], campaign: Path, client: str, url: str, token: str, folder: Path
) -> None:
    """Make an agent's folder and connect its client there; CalledProcessError where that fails."""
    folder.mkdir(parents=True, exist_ok=True)
    connect = ["connect", str(campaign), "--client", client, "--url", url, "--write"]
    subprocess.run(
        [*command, *connect, "--project", str(folder)],
        env={**os.environ, "KERNELARC_TOKEN": token},
        stdout=subprocess.DEVNULL,
        check=True,
    )
    if client == "gemini":
        # Nobody is there to allow a call of the server's tools.
        path = folder / ".gemini/settings.json"
        settings = json.loads(path.read_text(encoding="utf-8"))
        settings["mcpServers"]["kernelarc"]["trust"] = True
        path.write_text(json.dumps(settings, indent=2) + "\n", encoding="utf-8")


def usage_of(client: str, output: str) -> Usage:
    """Return what a client's output says about a run; of another form, nothing is known."""
    used = Usage()
    for document in documents(output):
        counts = _object(document.get("usage"))
        if client == "claude" and "total_cost_usd" in document:
            cached = ("cache_creation_input_tokens", "cache_read_input_tokens")
            sent = _sum(_number(counts, name) for name in ("input_tokens", *cached))
            cost = document["total_cost_usd"]
            used = Usage(
                sent,
                _number(counts, "output_tokens"),
                cost if isinstance(cost, int | float) else None,
                _number(counts, "cache_read_input_tokens"),
                _only(_object(document.get("modelUsage"))),
            )
        elif client == "codex" and document.get("type") == "turn.completed":
            used = Usage(
                _number(counts, "input_tokens"),
                _number(counts, "output_tokens"),
                cached_tokens=_number(counts, "cached_input_tokens"),
            )
        elif client == "gemini" and "stats" in document:
            models = _object(_object(document["stats"]).get("models"))
            tokens = [_object(_object(model).get("tokens")) for model in models.values()]
            used = Usage(
                _sum(_number(count, "prompt") for count in tokens),
                _sum(_number(count, "candidates") for count in tokens),
                cached_tokens=_sum(_number(count, "cached") for count in tokens),
                model=_only(models),
            )
    return used


def _sum(counts: Iterable[int | None]) -> int | None:
    """Return the sum of what is known; None where nothing is."""
    known = [count for count in counts if count is not None]
    return sum(known) if known else None


def _only(models: dict[str, Any]) -> str:
    """Return the one model's name; empty where there is none or several."""
    return next(iter(models)) if len(models) == 1 else ""


def _object(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _number(counts: dict[str, Any], name: str) -> int | None:
    value = counts.get(name)
    return value if isinstance(value, int) else None


def documents(output: str) -> list[dict[str, Any]]:
    """Return the JSON objects that begin a line of a client's output, in their order."""
    found, place, decoder = [], 0, json.JSONDecoder()
    while place < len(output):
        if output[place] == "{":
            try:
                document, place = decoder.raw_decode(output, place)
            except (json.JSONDecodeError, RecursionError):
                pass
            else:
                found.append(document)
        place = output.find("\n", place) + 1 or len(output)
    return found
