"""A campaign as a git repository: a branch per agent, a commit per judged candidate, a tag per KEEP.

A commit's parent is what its author stood on: the agent's branch when it submitted. A KEEP has the
record that it beat as its second parent, so that `main`, which is the record, leads back through those
it rests on. What a verdict threw away hangs beside the branch, under a tag of its own.
"""

import os
import shutil
import subprocess
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

from kernelarc_mcp.exporting.candidates import Candidates, Judged
from kernelarc_mcp.exporting.readme import message
from kernelarc_mcp.exporting.tree import Tree, tree_of
from kernelarc_mcp.host.errors import BadRequest
from kernelarc_mcp.host.events import SEED


def write_repository(folder: Path, found: Candidates, problem: Tree) -> list[str]:
    """Write a repository into `folder`, which must be new or empty; returns its refs, sorted.

    Commits depend on the campaign alone: the same campaign gives the same hashes. BadRequest where
    there is no git or it does not take the history.
    """
    git = shutil.which("git")
    if git is None:
        raise BadRequest("--to git: there is no `git` on the PATH")
    folder.mkdir(parents=True, exist_ok=True)
    _run(git, folder, "init", "--quiet", "--initial-branch=main")
    stream = b"".join(_stream(found, problem))
    _run(git, folder, "fast-import", "--quiet", "--date-format=raw", stdin=stream)
    _run(git, folder, "reset", "--quiet", "--hard", "main")
    listed = _run(git, folder, "for-each-ref", "--format=%(refname)")
    return sorted(listed.decode().split())


def _run(git: str, folder: Path, *arguments: str, stdin: bytes = b"") -> bytes:
    # The user's own configuration (hooks, signing, templates) must not change what is written.
    quiet = {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1", "GIT_TEMPLATE_DIR": ""}
    kept = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    ran = subprocess.run(
        [git, *arguments], cwd=folder, input=stdin, capture_output=True, env=kept | quiet
    )
    if ran.returncode:
        said = ran.stderr.decode("utf-8", "replace").strip()
        raise BadRequest(f"--to git: git {arguments[0]}: {said}")
    return ran.stdout


def _stream(found: Candidates, problem: Tree) -> Iterator[bytes]:
    marks = {ticket: mark for mark, ticket in enumerate(found.judged, start=1)}
    for candidate in found.judged.values():
        tree = tree_of(found, candidate, problem)
        yield from _commit(found, candidate, marks, tree)
    for agent, ticket in found.branches.items():
        yield from _reset(f"refs/heads/agent/{agent}", marks[ticket])
    yield from _reset("refs/heads/main", marks[found.records[-1]])
    yield b"done\n"


def _tag(candidate: Judged) -> str:
    if candidate.ticket == SEED:
        return SEED
    kind = "keep" if candidate.kept else "attempt"
    return f"{kind}/{candidate.number:04d}-{candidate.ticket}"


def _commit(
    found: Candidates, candidate: Judged, marks: dict[str, int], tree: Tree
) -> Iterator[bytes]:
    author = candidate.agent or "kernelarc"
    who = f"{author} <{author}@kernelarc.invalid> {_seconds(candidate.settled_at)} +0000"
    yield f"commit refs/tags/{_tag(candidate)}\nmark :{marks[candidate.ticket]}\n".encode()
    yield f"author {who}\ncommitter {who}\n".encode()
    yield _data(message(found, candidate).encode())
    parents = [candidate.parent] if candidate.parent else []
    if candidate.kept and candidate.against != candidate.parent:
        parents.append(candidate.against)
    for word, parent in zip(("from", "merge"), parents, strict=False):
        yield f"{word} :{marks[parent]}\n".encode()
    yield b"deleteall\n"
    for path, content in sorted(tree.items()):
        yield f"M 100644 inline {_quoted(path)}\n".encode()
        yield _data(content)
    yield b"\n"


def _reset(ref: str, mark: int) -> Iterator[bytes]:
    yield f"reset {ref}\nfrom :{mark}\n\n".encode()


def _data(content: bytes) -> bytes:
    return b"data %d\n%s\n" % (len(content), content)


def _quoted(path: str) -> str:
    escaped = path.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'


def _seconds(at: str) -> int:
    return int(datetime.fromisoformat(at).timestamp())
