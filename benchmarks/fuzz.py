"""Fuzz what the guard reads: hypothesis with fresh seeds, each target in a process of its own, for a set time.

Prints a row per target: examples, seconds, failures, the seeds. A target fails where its check raises, where its
process ends in another way (a crash of the interpreter), and where it outlives its time by far (a hang).

    python -m benchmarks.fuzz --minutes 10
    python -m benchmarks.fuzz --target "control page" --seed 123 --minutes 1
"""

import argparse
import os
import secrets
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

_TESTS = Path(__file__).resolve().parent.parent / "tests"
_ROUND_SECONDS = 30.0
_REAL = 4.0
"""How much longer a round with real processes is."""
_GRACE_SECONDS = 240.0
"""For the last example and for shrinking a failure."""


@dataclass
class Row:
    """What became of one target."""

    examples: int = 0
    seconds: float = 0.0
    failures: list[str] = field(default_factory=list)
    seeds: list[int] = field(default_factory=list)


def main() -> None:
    """Go round the targets until the time is over."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--target", action="append", help="only this one; may be repeated")
    parser.add_argument("--seed", type=int, help="of the first round; the default is random")
    asked = parser.parse_args()
    listed = _worker("--list").stdout.splitlines()
    real = {line[1:] for line in listed if line.startswith("*")}
    names = [line.lstrip("*") for line in listed]
    for name in asked.target or ():
        if name not in names:
            parser.error(f"--target {name!r}: expected one of {', '.join(names)}")
    chosen: list[str] = asked.target or names
    rows = {name: Row() for name in chosen}
    shares = sum(_REAL if name in real else 1.0 for name in chosen)
    seconds = min(_ROUND_SECONDS, asked.minutes * 60 / shares)
    end = time.monotonic() + asked.minutes * 60
    first: int | None = asked.seed
    while time.monotonic() < end:
        for name in chosen:
            if rows[name].seeds and time.monotonic() > end:
                break
            number = first if first is not None else secrets.randbits(32)
            _round(name, rows[name], number, seconds * _REAL if name in real else seconds)
        first = None
    _print(rows)
    sys.exit(any(row.failures for row in rows.values()))


def _round(name: str, row: Row, number: int, seconds: float) -> None:
    row.seeds.append(number)
    begin = time.monotonic()
    try:
        done = _worker(
            "--target", name, "--seed", str(number), "--seconds", str(seconds), limit=seconds
        )
    except subprocess.TimeoutExpired:
        row.failures.append(f"seed {number}: no end after {seconds + _GRACE_SECONDS:.0f} s")
        return
    finally:
        row.seconds += time.monotonic() - begin
    count = done.stdout.rpartition("examples ")[2].strip()
    row.examples += int(count) if count.isdigit() else 0
    if done.returncode != 0:
        row.failures.append(f"seed {number}: status {done.returncode}: {done.stderr[-4000:]}")


def _worker(*arguments: str, limit: float = 0.0) -> subprocess.CompletedProcess[str]:
    path = os.pathsep.join([str(_TESTS), os.environ.get("PYTHONPATH", "")])
    return subprocess.run(
        [sys.executable, "-m", "fuzz.worker", *arguments],
        capture_output=True,
        text=True,
        errors="replace",
        timeout=limit + _GRACE_SECONDS,
        env={**os.environ, "PYTHONPATH": path},
    )


def _print(rows: dict[str, Row]) -> None:
    print("| target | examples | seconds | failures | rounds | first seed |")
    print("|---|---|---|---|---|---|")
    for name, row in rows.items():
        print(
            f"| {name} | {row.examples} | {row.seconds:.0f} | {len(row.failures)} |"
            f" {len(row.seeds)} | {row.seeds[0] if row.seeds else ''} |"
        )
    total = sum(row.examples for row in rows.values())
    failed = sum(len(row.failures) for row in rows.values())
    print(f"| all | {total} | {sum(row.seconds for row in rows.values()):.0f} | {failed} | | |")
    for name, row in rows.items():
        for failure in row.failures:
            print(f"\n{name}: {failure}")


if __name__ == "__main__":
    main()
