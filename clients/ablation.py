"""The paper's ablation on a problem of your choice: one agent, two with a bounded memory, two with all of it.

    python clients/ablation.py --problem rmsnorm --dir runs/rmsnorm
    python clients/ablation.py --problem rmsnorm --dir runs/rmsnorm --more -- my-agent --url {url} --name {agent}

Writes DIR.yaml, an experiment, and runs it; the same command goes on after an interruption. What follows
`--` is one agent's command, the scripted tuner without it; its token is in KERNELARC_TOKEN. `--more` adds the
arms that switch lenses and drafting off, and four agents. For anything else edit the file and run
`kernelarc-mcp experiment` yourself.
"""

import argparse
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

import yaml

PAPER: Final[list[dict[str, Any]]] = [
    {"name": "single", "agents": 1, "memory": "private"},
    {"name": "bounded", "agents": 2, "memory": "bounded", "records": 16, "board": True},
    {"name": "unbounded", "agents": 2, "memory": "unbounded", "board": True},
]
MORE: Final[list[dict[str, Any]]] = [
    {"name": "four", "agents": 4, "memory": "bounded", "records": 16, "board": True},
    {"name": "no-lens", "agents": 2, "memory": "bounded", "records": 16, "lens": False},
    {"name": "no-drafting", "agents": 2, "memory": "bounded", "records": 16, "drafting": False},
]


def arguments() -> tuple[argparse.Namespace, list[str]]:
    """Return the options, and the client's command behind `--`."""
    given = sys.argv[1:]
    command = given[given.index("--") + 1 :] if "--" in given else []
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--problem", required=True, help="a problem of the library, or a folder")
    parser.add_argument("--dir", type=Path, required=True, help="where the runs are, or will be")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--attempts", type=int, default=100, help="of all agents of a run together")
    parser.add_argument("--runs", type=int, default=5, help="of each arm")
    parser.add_argument("--more", action="store_true", help="lenses, drafting and four agents too")
    return parser.parse_args(given[: given.index("--")] if "--" in given else given), command


def experiment(chosen: argparse.Namespace, command: list[str]) -> dict[str, Any]:
    """Return the experiment as `kernelarc-mcp experiment` reads it."""
    folder = Path(chosen.problem)
    whole: dict[str, Any] = {
        "name": chosen.dir.name,
        "problem": str(folder.resolve()) if folder.is_dir() else chosen.problem,
        "device": chosen.device,
        "attempts": chosen.attempts,
        "runs": chosen.runs,
        "arms": PAPER + (MORE if chosen.more else []),
    }
    return whole | ({"client": command} if command else {})


def main() -> int:
    """Write the file and run it."""
    chosen, command = arguments()
    file = chosen.dir.with_name(f"{chosen.dir.name}.yaml")
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(yaml.safe_dump(experiment(chosen, command), sort_keys=False), encoding="utf-8")
    program = [sys.executable, "-m", "kernelarc_mcp", "experiment", str(file)]
    return subprocess.run([*program, "--dir", str(chosen.dir)]).returncode


if __name__ == "__main__":
    sys.exit(main())
