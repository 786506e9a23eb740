"""The files of one candidate: kernel, problem, what it was compared with, its test and README."""

import json
from pathlib import Path
from typing import Final

from kernelarc_guard.formats.documents import dump_document
from kernelarc_guard.formats.writing import solution_document
from kernelarc_guard.solution import Solution
from kernelarc_mcp.exporting.candidates import Candidates, Judged, renamed
from kernelarc_mcp.exporting.readme import readme
from kernelarc_mcp.host.campaign import PROBLEM, Campaign

Tree = dict[str, bytes]
"""Path inside the tree -> content."""

_TEST: Final = '''"""Judge this kernel again: `python -m pytest test_kernel.py`.

Needs `kernelarc-mcp[guard]` in the same Python, and the device below. A verdict is measured: on another
machine, or beside other work, a small gain may not be proven again.
"""

import json
import subprocess
import sys
from pathlib import Path

import pytest

DEVICE = {device}
EXPECTED = {expected}
"""What the candidate is compared with -> the verdict that is expected."""


@pytest.mark.parametrize("record", EXPECTED)
def test_the_verdict_holds(record: str) -> None:
    command = [sys.executable, "-m", "kernelarc_mcp", "evaluate", "--json", "--device", DEVICE]
    command += ["--problem", "problem", "--solution", "solution", "--record", record]
    ran = subprocess.run(
        command, cwd=Path(__file__).parent, capture_output=True, text=True, check=False
    )
    assert ran.returncode == 0, ran.stderr
    found = json.loads(ran.stdout)
    verdict = found["verdict"]
    assert verdict == EXPECTED[record], f"{{verdict}} {{found['reason']}}: {{found['detail']}}"
'''


def problem_files(campaign: Campaign) -> Tree:
    """Return the campaign's own copy of its problem, with all files its workloads name."""
    root = campaign.folder / PROBLEM
    return {
        f"{PROBLEM}/{path.relative_to(root).as_posix()}": path.read_bytes()
        for path in sorted(root.rglob("*"))
        if path.is_file()
    }


def tree_of(found: Candidates, candidate: Judged, problem: Tree) -> Tree:
    """Return a candidate's files.

    `solution/`, `record/` (what it was compared with) and `problem/` are what `evaluate` reads; a KEEP
    comes with the seed as well.
    """
    files = dict(problem)
    files |= _solution_files("solution", renamed(candidate.solution, candidate))
    expected = _expected(found, candidate)
    for folder, ticket in _compared(found, candidate).items():
        other = found.judged[ticket]
        files |= _solution_files(folder, renamed(other.solution, other))
    if expected:
        test = _TEST.format(device=_literal(found.device), expected=_literal(expected))
        files["test_kernel.py"] = test.encode()
    files["README.md"] = readme(found, candidate, tested=bool(expected)).encode()
    return files


def write_tree(folder: Path, tree: Tree) -> None:
    """Write a tree below `folder`; OSError where it cannot be written."""
    for path, content in tree.items():
        target = folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(content)


def _compared(found: Candidates, candidate: Judged) -> dict[str, str]:
    """Return the folders of what the candidate is compared with -> their tickets."""
    if candidate.against not in found.judged:
        return {}
    folders = {"record": candidate.against}
    if candidate.kept and candidate.against != found.records[0]:
        folders["seed"] = found.records[0]
    return folders


def _expected(found: Candidates, candidate: Judged) -> dict[str, str]:
    if candidate.withdrawn:
        return {}  # what the later measurement took back is nothing to expect
    return dict.fromkeys(_compared(found, candidate), candidate.verdict)


def _solution_files(folder: str, solution: Solution) -> Tree:
    document = solution_document(solution)
    document["sources"] = [{"path": source.path} for source in solution.sources]
    files = {f"{folder}/{s.path}": s.content.encode() for s in solution.sources}
    name = f"{folder}/solution.json"
    if name in files:
        # A source of that very name: the document then carries all of them itself.
        return {name: dump_document(solution_document(solution)).encode()}
    return files | {name: dump_document(document).encode()}


def _literal(value: object) -> str:
    return json.dumps(value)
