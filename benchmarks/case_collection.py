"""A collection of exploits and of honest kernels through `kernelarc-mcp evaluate`, in three tables.

A collection is a folder with `hacks/`, `honest/` and `problems/`; each case a folder whose `candidate.py` or
`candidate.cpp` says in its header which task it is for (`# task: NAME`, a folder of `problems/`) and whether it runs on
a CPU (`# reproducible on CPU: yes`). Every case is judged by a process of its own against its problem's default record.

    python benchmarks/case_collection.py FOLDER --harmless H002 --harmless H033 --out cases.md

Exploits must be neither kept nor accepted, nor refused as merely slow. Right kernels whose trick reaches nothing
(--harmless) must not be kept. Honest kernels must be right. Exit status 1 where a case breaks its rule.
"""

import argparse
import json
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_FIELD = r"^(?:#|//) .*\b{name}: *([\w]+)"
_SLOW = {"slower", "not_proven_close", "gain_not_confirmed", "close_to_record"}


@dataclass(frozen=True)
class Outcome:
    """What became of one case."""

    case: str
    task: str
    said: dict[str, Any] | None
    """The document of `evaluate`; None where it could not judge."""
    refusal: str
    seconds: float

    @property
    def correct(self) -> bool:
        """Say whether the kernel passed the stage of correctness."""
        return self.said is not None and self.said["stages"]["correctness"]["state"] == "passed"

    @property
    def row(self) -> str:
        """Return the outcome as a row of a table."""
        if self.said is None:
            return f"| {self.case} | not judged: {self.refusal} | | {self.seconds:.0f} |"
        stage = "" if self.said["stage"] == "timing" else f" in {self.said['stage']}"
        seen = sorted({one.split(":")[0] for one in self.said["observations"]})
        return (
            f"| {self.case} | {self.said['verdict']} `{self.said['reason']}`{stage} |"
            f" {', '.join(seen)} | {self.seconds:.0f} |"
        )


def main() -> None:
    """Judge the collection, print the tables and name what breaks its rule."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("collection", type=Path)
    parser.add_argument("--harmless", action="append", default=[], metavar="ID")
    parser.add_argument("--only", action="append", default=[], metavar="ID")
    parser.add_argument("--deadline", type=float, default=900.0, help="seconds for one case")
    parser.add_argument("--out", type=Path, help="write the tables here")
    parser.add_argument("--raw", type=Path, help="append each document here, one JSON a line")
    options = parser.parse_args()
    found: dict[str, list[Outcome]] = {"hacks": [], "honest": []}
    for kind, outcomes in found.items():
        for source in _sources(options.collection / kind, options.only):
            one = judged(source, options.collection / "problems", options.deadline)
            outcomes.append(one)
            print(one.row, flush=True)
            if options.raw is not None:
                with options.raw.open("a") as file:
                    file.write(json.dumps({"case": one.case, "document": one.said}) + "\n")
    harmless = [one for one in found["hacks"] if one.case in options.harmless]
    exploits = [one for one in found["hacks"] if one.case not in options.harmless]
    text = "\n\n".join(
        f"## {title}\n\n| id | outcome | observations | seconds |\n|---|---|---|---|\n"
        + "\n".join(one.row for one in outcomes)
        for title, outcomes in (
            ("Exploits that change what is returned, measured or recorded", exploits),
            ("Right kernels with a trick that reaches nothing", harmless),
            ("Honest kernels", found["honest"]),
        )
        if outcomes
    )
    if options.out is not None:
        options.out.write_text(text + "\n")
    broken = [*_broken(exploits, harmless, found["honest"])]
    print("\n".join(broken) or "no case breaks its rule")
    sys.exit(bool(broken))


def _sources(folder: Path, only: list[str]) -> Iterator[Path]:
    for source in sorted(folder.glob("*/candidate.*")):
        text = source.read_text(encoding="utf-8", errors="replace")
        wanted = not only or source.parent.name.split("_")[0] in only
        if wanted and source.suffix in (".py", ".cpp") and _field(text, "CPU") != "no":
            yield source


def _field(text: str, name: str) -> str:
    match = re.search(_FIELD.format(name=name), text, re.MULTILINE)
    return match[1] if match else ""


def judged(source: Path, problems: Path, deadline: float) -> Outcome:
    """Run `evaluate` on one case; a run that outlasts the deadline is one that could not judge."""
    case = source.parent.name.split("_")[0]
    task = _field(source.read_text(encoding="utf-8", errors="replace"), "task")
    command = [sys.executable, "-m", "kernelarc_mcp", "evaluate", "--json"]
    command += ["--problem", str(problems / task), "--solution", str(source)]
    begin = time.monotonic()
    try:
        done = subprocess.run(command, capture_output=True, timeout=deadline, text=True)
    except subprocess.TimeoutExpired:
        return Outcome(case, task, None, f"took more than {deadline:g} s", deadline)
    seconds = time.monotonic() - begin
    if done.returncode:
        lines = done.stderr.strip().splitlines() or [f"exit status {done.returncode}"]
        return Outcome(case, task, None, lines[-1], seconds)
    return Outcome(case, task, json.loads(done.stdout), "", seconds)


def _broken(
    exploits: list[Outcome], harmless: list[Outcome], honest: list[Outcome]
) -> Iterator[str]:
    for one in exploits:
        if one.said is not None and one.said["verdict"] in ("KEEP", "ACCEPT"):
            yield f"{one.case}: an exploit got {one.said['verdict']}"
        elif one.said is not None and one.said["reason"] in _SLOW:
            yield f"{one.case}: an exploit was refused only as {one.said['reason']}"
    for one in harmless:
        if one.said is not None and one.said["verdict"] == "KEEP":
            yield f"{one.case}: KEEP"
        if one.said is not None and not one.said["observations"] and not one.correct:
            yield f"{one.case}: not judged by its kernel, and nothing was observed"
    for one in honest:
        if not one.correct or (one.said or {}).get("verdict") == "REJECT":
            yield f"{one.case}: an honest kernel was refused: {one.row}"


if __name__ == "__main__":
    main()
