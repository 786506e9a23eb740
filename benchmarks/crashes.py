"""Kill -9 at seeded points, then restart and verify: ledger and dispatcher with a stand-in guard, or the full stack.

    python -m benchmarks.crashes ledger --kills 800 --out crashes.jsonl
    python -m benchmarks.crashes stack --kills 200 --out crashes.jsonl
    python -m benchmarks.crashes report crashes.jsonl --out docs/measurements/crashes.md

Results are appended to the JSON-lines file, a line for each kill and one for the end of each run, and a later call goes
on where the file ends. Exit status 1 where something was wrong.
"""

import argparse
import json
import random
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, TypeVar

_TESTS = Path(__file__).resolve().parent.parent / "tests"
sys.path[:0] = [str(_TESTS)]

from crash.deck import Deck  # noqa: E402
from crash.ledger_runs import LedgerRun  # noqa: E402
from crash.points import NAMED  # noqa: E402
from crash.stack_runs import StackRun, roles_of  # noqa: E402
from crash.standin import stand_in  # noqa: E402
from crash.victims import context  # noqa: E402

_LEDGER_ACTIONS: Final = (
    *("client",) * 10,
    *("dispatcher",) * 7,
    *("hand-over",) * 3,
    *("outside",) * 2,
    *("guard",) * 3,
)
"""The kills of one run, in an order by its seed."""


_STACK_KILLS: Final = 24
"""The kills of one run over the full stack."""
Action = TypeVar("Action")


def main() -> None:
    """Do one of the three."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    kinds = parser.add_subparsers(dest="kind", required=True)
    for kind in ("ledger", "stack"):
        one = kinds.add_parser(kind)
        one.add_argument("--kills", type=int, required=True, help="of the whole file")
        one.add_argument("--out", type=Path, required=True, help="lines are appended")
        one.add_argument("--seed", type=int, default=1, help="of the first run")
        if kind == "ledger":
            one.add_argument(
                "--lanes", type=int, default=0, help="of a fleet; 0 (default): one guard"
            )
        one.add_argument("--pause-file", type=Path, help="nothing begins while it exists")
    report = kinds.add_parser("report")
    report.add_argument("files", type=Path, nargs="+")
    report.add_argument("--out", type=Path)
    asked = parser.parse_args()
    if asked.kind == "report":
        from benchmarks.crash_report import write_report

        sys.exit(bool(write_report(read_lines(asked.files), asked.out)))
    sys.exit(_kill(asked))


def _kill(asked: argparse.Namespace) -> int:
    wrong, asked.statements = 0, {}
    while True:
        lines = [one for one in read_lines([asked.out]) if one["tier"] == asked.kind]
        done = sum("process" in one for one in lines)
        if done >= asked.kills:
            return int(bool(wrong))
        seed = max([asked.seed - 1, *(one["seed"] for one in lines)]) + 1
        # Kept where a run breaks off: whoever looks for the reason needs it.
        folder = Path(tempfile.mkdtemp(prefix=f"crashes-{asked.kind}-{seed}-"))
        runs = _ledger_run if asked.kind == "ledger" else _stack_run
        for line in runs(folder, seed, lines, asked):
            wrong += bool(line["wrong"])
            with asked.out.open("a", encoding="utf-8") as file:
                file.write(json.dumps({"tier": asked.kind, **line}) + "\n")
            print(json.dumps(line), flush=True)
        shutil.rmtree(folder, ignore_errors=True)


def read_lines(files: list[Path]) -> list[dict[str, Any]]:
    """Return all lines of the files that exist."""
    texts = [file.read_text(encoding="utf-8") for file in files if file.exists()]
    return [json.loads(line) for text in texts for line in text.splitlines()]


def _ledger_run(
    folder: Path, seed: int, lines: list[dict[str, Any]], asked: argparse.Namespace
) -> Iterator[dict[str, Any]]:
    left = asked.kills - sum("process" in one for one in lines)
    killed = [one for one in lines if one.get("statement")]
    covered = {(one["stage"], one["statement"]) for one in killed}
    covered |= {(one["stage"], NAMED[one["what"]]) for one in killed if one["what"] in NAMED}
    with stand_in(folder, asked.lanes) as guard:
        run = LedgerRun(folder / "campaign", guard, seed, context(), asked.lanes)
        # Once for each call: an older version, whose lines are in the file, may have had others.
        asked.statements = statements = asked.statements or run.catalogue()
        deck = Deck(statements, covered, seed)
        actions = random.Random(seed).sample(_LEDGER_ACTIONS, len(_LEDGER_ACTIONS))[:left]
        for row in run.kills(_paused(actions, asked.pause_file), deck.point):
            yield row.as_json()
        wrong = run.finish()
    yield {"seed": seed, "wrong": wrong, "submissions": len(run.sent), "statements": statements}


def _stack_run(
    folder: Path, seed: int, lines: list[dict[str, Any]], asked: argparse.Namespace
) -> Iterator[dict[str, Any]]:
    left = asked.kills - sum("process" in one for one in lines)
    run = StackRun(folder / "campaign", seed, asked.pause_file)
    try:
        for row in run.kills(_paused(roles_of(seed, min(left, _STACK_KILLS)), asked.pause_file)):
            yield row.as_json()
        yield {"seed": seed, "wrong": run.finish(), "submissions": run.submissions}
    finally:
        run.close()


def _paused(actions: list[Action], pause: Path | None) -> Iterator[Action]:
    for action in actions:
        while pause is not None and pause.exists():
            time.sleep(1.0)
        yield action


if __name__ == "__main__":
    main()
