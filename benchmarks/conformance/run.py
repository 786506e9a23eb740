"""The official conformance suite and Inspector against our server; `make conformance` installs and runs it.

    python -m benchmarks.conformance.run --node .node [--ours] [--out table.md] [--keep DIR]

Ours is tried twice: as `kernelarc-mcp serve` serves it, and with the tools, resources and prompts beside its own that the
suite asks for by name (`tests/conformance`), through the same command, door and tool boundary. The SDK's own server for this
suite is the comparison. Exit status 1 where a scored scenario, or a call of the Inspector, fails on ours.
"""

import argparse
import sys
import tempfile
from importlib.metadata import version
from pathlib import Path

from benchmarks.conformance import inspector, reference, servers
from benchmarks.conformance.node import Node
from benchmarks.conformance.suite import REVISIONS, Outcome, Requirements, requirements, run

FIXTURE_FREE = frozenset(
    {
        "server-initialize",
        "server-session-lifecycle",
        "server-sse-multiple-streams",
        "ping",
        "tools-list",
        "resources-list",
        "prompts-list",
        "sep-2164-resource-not-found",
        "dns-rebinding-protection",
        "caching",
        "http-header-validation",
        "input-required-result-unsupported-methods",
    }
)
"""Scenarios that ask for nothing by name: the server must pass them as it is."""
Outcomes = dict[str, Outcome]
NOT_RUN = Outcome(faults=["the suite did not run it"])


def main() -> int:
    """Run everything and print the table; return 1 where ours fails."""
    parser = argparse.ArgumentParser(description="Run the official suite and Inspector.")
    parser.add_argument("--node", type=Path, required=True, help="where `npm ci` was run")
    parser.add_argument("--ours", action="store_true", help="leave the SDK's own server out")
    parser.add_argument("--keep", type=Path, help="put logs and the suite's details there")
    parser.add_argument("--out", type=Path, help="write the table there too")
    options = parser.parse_args()
    node = Node(options.node.resolve())
    root = Path(options.keep or tempfile.mkdtemp(prefix="kernelarc-conformance-")).resolve()
    root.mkdir(parents=True, exist_ok=True)
    ours = servers.create(root)
    with servers.served(ours, root / "served.log", fixtures=False) as url:
        plain = {one: tried(node, one, url, ours.token, root / "served") for one in REVISIONS}
        looks = list(inspector.look(node, ours, url, root / "inspector"))
    with servers.served(ours, root / "fixtures.log", fixtures=True) as url:
        full = {one: tried(node, one, url, ours.token, root / "fixtures") for one in REVISIONS}
    theirs: dict[str, Outcomes] = {}
    if not options.ours:
        source = reference.fetch(options.node.resolve())
        with servers.reference(source, root / "reference.log") as url:
            theirs = {one: tried(node, one, url, "", root / "reference") for one in REVISIONS}
    lines: list[str] = []
    faults: list[str] = []
    for revision in REVISIONS:
        wanted = requirements(node, revision)
        lines += table(revision, wanted, plain[revision], full[revision], theirs.get(revision, {}))
        faults += faults_of(revision, wanted, plain[revision], full[revision])
    lines += ["", "| Inspector | exit status |", "|---|---|"]
    lines += [f"| {one.what} | {one.status} |" for one in looks]
    faults += [f"Inspector, {one.what}: {one.output}" for one in looks if one.status]
    text = "\n".join(lines).strip() + "\n"
    print(text)
    if options.out:
        options.out.write_text(text, encoding="utf-8")
    for fault in faults:
        print(f"FAULT: {fault}", file=sys.stderr)
    print("All of it passed." if not faults else f"{len(faults)} faults; details in {root}")
    return 1 if faults else 0


def tried(node: Node, revision: str, url: str, token: str, folder: Path) -> Outcomes:
    """Return the outcomes at one revision, and say that it was tried."""
    print(f"{folder.name}, {revision} ...", file=sys.stderr)
    return run(node, revision, url, token, folder / revision)


def table(
    revision: str, wanted: Requirements, plain: Outcomes, full: Outcomes, theirs: Outcomes
) -> list[str]:
    """Return the lines of one revision's table; a cell is checks passed / checks made."""
    lines = ["", f"| {revision} | ours as served | ours with fixtures | SDK {version('mcp')} |"]
    lines.append("|---|---|---|---|")
    names = {name: name for name in wanted.scored}
    names |= {name: f"{name} (not scored: {why})" for name, why in wanted.unscored.items()}
    for name, shown in names.items():
        served = str(plain.get(name, NOT_RUN)) if name in FIXTURE_FREE else ""
        lines.append(f"| {shown} | {served} | {full.get(name, '')} | {theirs.get(name, '')} |")
    free = [name for name in wanted.scored if name in FIXTURE_FREE]
    sums = [passing(free, plain), passing(wanted.scored, full), passing(wanted.scored, theirs)]
    lines.append(f"| **scored scenarios passed** | {' | '.join(sums)} |")
    return lines


def passing(names: list[str], outcomes: Outcomes) -> str:
    """Return how many of the scenarios passed, of how many; empty where none was tried."""
    if not outcomes:
        return ""
    return f"{sum(outcomes.get(name, NOT_RUN).right for name in names)} of {len(names)}"


def faults_of(revision: str, wanted: Requirements, plain: Outcomes, full: Outcomes) -> list[str]:
    """Return what failed on ours and counts."""
    tried_on = [("as served", plain, [n for n in wanted.scored if n in FIXTURE_FREE])]
    tried_on.append(("with fixtures", full, wanted.scored))
    return [
        f"{revision}, {name} {where}: {'; '.join(outcome.faults) or 'no check passed'}"
        for where, outcomes, names in tried_on
        for name in names
        if not (outcome := outcomes.get(name, NOT_RUN)).right
    ]


if __name__ == "__main__":
    sys.exit(main())
