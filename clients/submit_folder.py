"""Submit every candidate in a folder, wait for the verdicts, and write down what they proved.

    KERNELARC_TOKEN=... python submit_folder.py candidates --url http://127.0.0.1:8765/mcp
    python submit_folder.py candidates --stdio-campaign DIR --name agent-1

A candidate is a file whose first comments are front matter (`//` instead of `#` in C++ and CUDA):

    # ---
    # summary: Two rows per step, so that the weights are read half as often.
    # algorithm: row pairs
    # if_win: Two rows per step halve the traffic of the weights; pays from 1024 columns on.
    # if_trap: Two rows per step spill registers.
    # ---

Files are taken in the order of their names, all of them read before the first is submitted. A
candidate's request id is the hash of its file: what was submitted before is not paid again, so that
the script may simply be started anew.
"""

import argparse
import hashlib
import os
import sys
import textwrap
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import anyio
import httpx2
import yaml
from mcp import MCPError

# A checkout and a wheel both ship this folder as plain files, not as a package.
sys.path.insert(0, str(Path(__file__).resolve().parent))

from tuning.connection import Campaign, ToolFailed, over_http, over_stdio, said

MARK: Final = {".py": "#", ".cpp": "//", ".cc": "//", ".cu": "//"}
"""File name's ending -> how a comment begins."""
KEYS: Final = {
    "summary": "one sentence on what changed and why (the only one that must be there)",
    "if_win": "a lesson for all agents, written where the verdict is KEEP or ACCEPT",
    "if_trap": "one for REJECT or REVERT",
    "algorithm": "a name for the approach; dsl and layout likewise",
    "dsl": "",
    "layout": "",
    "language": "as submit_candidate takes it; so are entry_point, binding and model",
    "entry_point": "",
    "binding": "",
    "model": "",
    "destination_passing": "true where `run` fills outputs (the default but for Python)",
    "cflags": "a list of compiler flags",
}
"""Key of the front matter -> what it is; empty where the key before says it."""
LESSONS: Final = {"if_win": ("KEEP", "ACCEPT"), "if_trap": ("REJECT", "REVERT")}
"""Key -> the verdicts that prove it."""
TEXTS: Final = KEYS.keys() - {"destination_passing", "cflags"}
HELP: Final = (
    "front matter: comments that begin a candidate, between two lines `# ---` (`// ---` in C++ and"
    " CUDA), as `key: value`:\n"
    + "\n".join(f"  {key:<20} {what}".rstrip() for key, what in KEYS.items())
)
DETAIL_WIDTH: Final = 300
"""Of what is printed of a detail; `kernelarc-mcp status DIR --submission TICKET` prints all."""
SUMMARY_CAP: Final = 160
LESSON_CAP: Final = 1200
"""What the memory takes; more is refused whole, so that it is said before anything is submitted."""


class BadCandidate(Exception):
    """Front matter is missing or wrong; the message names each such file."""


@dataclass(frozen=True)
class Candidate:
    """One file: what goes to the server, and what to conclude from its verdict."""

    name: str
    arguments: dict[str, Any]
    lessons: dict[str, str]


def read_folder(folder: Path) -> list[Candidate]:
    """Return the folder's candidates by name; BadCandidate says of every bad file what is wrong."""
    files = sorted(path for path in folder.iterdir() if path.suffix in MARK)
    if not files:
        raise BadCandidate(f"{folder}: no candidate here; their names end in {', '.join(MARK)}")
    candidates, wrong = [], []
    for path in files:
        try:
            candidates.append(read_candidate(path))
        except BadCandidate as bad:
            wrong.append(str(bad))
    if wrong:
        raise BadCandidate("\n".join([*wrong, "nothing was submitted; --help has all keys"]))
    return candidates


def read_candidate(path: Path) -> Candidate:
    """Return one candidate; BadCandidate says what is wrong with its front matter."""
    try:
        source = path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise BadCandidate(f"{path}: it is no UTF-8 text") from None
    front = front_matter(path, source)
    wrong = sorted(str(key) for key in front.keys() - KEYS)
    if wrong:
        raise BadCandidate(f"{path}: unknown {wrong[0]!r}; allowed are {', '.join(KEYS)}")
    for key, value in front.items():
        if key in TEXTS and not isinstance(value, str):
            raise BadCandidate(f"{path}: {key}: expected a text")
    if not front.get("summary"):
        raise BadCandidate(f"{path}: `summary` is missing: one sentence on what changed and why")
    lessons = {key: front.pop(key) for key in LESSONS if key in front}
    if lessons and len(front["summary"]) > SUMMARY_CAP:
        raise BadCandidate(f"{path}: summary: at most {SUMMARY_CAP} characters with a lesson")
    for key, lesson in lessons.items():
        if len(lesson) > LESSON_CAP:
            raise BadCandidate(f"{path}: {key}: {len(lesson)} characters; at most {LESSON_CAP}")
    fills = path.suffix != ".py"
    digest = hashlib.sha256(f"{path.name}\n{source}".encode()).hexdigest()
    fixed = {"source": source, "filename": path.name, "request_id": digest[:32]}
    return Candidate(path.name, {"destination_passing": fills} | front | fixed, lessons)


def front_matter(path: Path, source: str) -> dict[str, Any]:
    """Return the front matter as a mapping."""
    mark = MARK[path.suffix]
    lines = source.splitlines()
    fence = f"{mark} ---"
    ends = [number for number, line in enumerate(lines) if line.rstrip() == fence][:2]
    if len(ends) < 2 or ends[0] != 0:
        raise BadCandidate(
            f"{path}: its first line must be {fence!r}, with another one below and between them"
            f" `{mark} summary: ...`; its keys are {', '.join(KEYS)}"
        )
    inside = lines[1 : ends[1]]
    if not all(line.startswith(mark) for line in inside):
        raise BadCandidate(f"{path}: every line between the two {fence!r} must begin with {mark!r}")
    try:
        front = yaml.safe_load("\n".join(line.removeprefix(mark)[1:] for line in inside))
    except yaml.YAMLError as error:
        raise BadCandidate(f"{path}: its front matter is not YAML: {error}") from None
    if not isinstance(front, dict):
        raise BadCandidate(f"{path}: expected `key: value` lines between the two {fence!r}")
    return front


async def submit_all(campaign: Campaign, candidates: list[Candidate]) -> None:
    """Submit the candidates one after the other until the directive is STOP."""
    brief = await campaign.call("get_brief")
    print(
        f"{brief['state']['agent']} on {brief['problem']}: {len(candidates)} candidates", flush=True
    )
    directive = brief["state"]["directive"]
    for candidate in candidates:
        if directive == "STOP":
            print(f"{candidate.name}: not submitted, no attempt is left", flush=True)
            continue
        campaign.judging = candidate.name
        view = await campaign.call("submit_candidate", **candidate.arguments)
        charged = view["charged"]
        view = await campaign.judged(view)
        told = f"{view['ticket']} {view['verdict']} {view['reason']}"
        gain = f" {view['speedup']:.3f}x the record" if view["speedup"] else ""
        print(f"{candidate.name}: {told}{gain}{'' if charged else ' (known)'}", flush=True)
        if view["verdict"] in LESSONS["if_trap"] and (detail := detail_of(view)):
            print(f"  {detail}", flush=True)
        directive = view["state_after"]["directive"]
        await conclude(campaign, candidate, view)


def detail_of(view: dict[str, Any]) -> str:
    """Return what was seen, on a line: the first build error too, where the detail has it not."""
    errors = [
        f"{m['file']}:{m['line']}: {m['message']}"
        for m in view["build"]
        if m["severity"] == "error"
    ]
    more = [one for one in errors[:1] if one.partition(" ")[2] not in view["detail"]]
    said = " ".join(" ".join([view["detail"], *more]).split())
    return textwrap.shorten(said, DETAIL_WIDTH, placeholder=" ...")


async def conclude(campaign: Campaign, candidate: Candidate, view: dict[str, Any]) -> None:
    """Write the lesson that the verdict proves, where the front matter has one."""
    for key, lesson in candidate.lessons.items():
        if view["verdict"] in LESSONS[key]:
            stored = await campaign.call(
                "write_conclusion",
                kind=key.removeprefix("if_"),
                summary=candidate.arguments["summary"],
                lesson=lesson,
                evidence=view["ticket"],
            )
            known = " (known)" if stored["merged"] else ""
            print(f"{candidate.name}: wrote a {key.removeprefix('if_')}{known}", flush=True)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description="Submit a folder of candidates as one agent.",
        epilog=HELP,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("folder", type=Path, help="folder with the candidates")
    where = parser.add_mutually_exclusive_group(required=True)
    where.add_argument("--url", help="server of the campaign; the token is in KERNELARC_TOKEN")
    where.add_argument(
        "--stdio-campaign", type=Path, metavar="DIR", help="start a server for this campaign"
    )
    parser.add_argument("--name", default="", help="agent's name (needed with stdio)")
    chosen = parser.parse_args()
    if chosen.url and not os.environ.get("KERNELARC_TOKEN"):
        parser.error("set KERNELARC_TOKEN to the agent's token")
    if chosen.stdio_campaign and not chosen.name:
        parser.error("--stdio-campaign needs --name")
    return chosen


async def main(chosen: argparse.Namespace) -> None:
    candidates = read_folder(chosen.folder)
    connection = (
        over_http(chosen.url, os.environ["KERNELARC_TOKEN"])
        if chosen.url
        else over_stdio(chosen.stdio_campaign, chosen.name)
    )
    async with connection as campaign:
        await submit_all(campaign, candidates)


if __name__ == "__main__":
    try:
        anyio.run(main, arguments())
    except* (BadCandidate, ToolFailed, MCPError, httpx2.HTTPError, OSError, ValueError) as failures:
        sys.exit(f"submit_folder: {said(failures)}")
