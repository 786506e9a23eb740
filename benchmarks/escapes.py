"""What the kernel answers to every way out of a sandbox that the tests know, from runner and builder, as tables.

    PYTHONPATH=tests python -m benchmarks.escapes --out escapes.md

Exit status 1 where an attempt works.
"""

import argparse
import platform
import sys
import tempfile
from pathlib import Path
from typing import get_args

from escapes import KINDS
from escaping import Host, answers_of_builder, answers_of_runner, worked
from laboratory import Laboratory, sandbox_of

from kernelarc_guard.confinement import Kind


def main() -> None:
    """Try them all under each protection and print the tables."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--out", type=Path)
    asked = parser.parse_args()
    protections: list[Kind] = [kind for kind in get_args(Kind) if kind != "none"]
    columns: dict[str, dict[str, dict[str, str]]] = {}
    with Host() as host:
        for protection in protections:
            with (
                tempfile.TemporaryDirectory() as folder,
                Laboratory(Path(folder), protection) as lab,
            ):
                columns[f"runner, {protection}"] = {
                    kind: answers_of_runner(lab, kind, host.aims) for kind in KINDS
                }
                columns[f"builder, {protection}"] = {
                    kind: answers_of_builder(sandbox_of(protection), kind, host.aims)
                    for kind in KINDS
                }
        unharmed = host.unharmed()
    lines = [f"Linux {platform.release().partition('-')[0]}, {platform.machine()}."]
    for kind in KINDS:
        lines += ["", f"## {kind.capitalize()}", "", *_table(kind, columns)]
    broken = [
        f"{column}: {name}: {said}"
        for column, kinds in columns.items()
        for answers in kinds.values()
        for name, said in worked(answers).items()
    ]
    total = sum(len(answers) for kinds in columns.values() for answers in kinds.values())
    lines.insert(1, f"{total} attempts, {len(broken)} of them worked.")
    print("\n".join(lines))
    if asked.out:
        asked.out.write_text("\n".join(lines) + "\n")
    for one in broken:
        print(f"WORKED: {one}", file=sys.stderr)
    sys.exit(bool(broken) or not unharmed)


def _table(kind: str, columns: dict[str, dict[str, dict[str, str]]]) -> list[str]:
    """Return a table of a kind, attempts that all get the same answers in one row."""
    rows: dict[tuple[str, ...], list[str]] = {}
    names = {name: None for kinds in columns.values() for name in kinds[kind]}
    for name in names:
        said = tuple(
            kinds[kind].get(name, "not tried").removeprefix("refused: ")
            for kinds in columns.values()
        )
        rows.setdefault(said, []).append(name)
    lines = [f"| attempt | {' | '.join(columns)} |", "|---" * (len(columns) + 1) + "|"]
    return lines + [f"| {', '.join(n)} | {' | '.join(said)} |" for said, n in rows.items()]


if __name__ == "__main__":
    main()
