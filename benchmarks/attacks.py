"""Judge every attack in `tests/attacks/` with a real guard, and say which reached what it was after.

    python -m benchmarks.attacks [--only NAME ...] [--json FILE] [--repeat N] [--untimed]

Correctness first; what comes through it is screened, and confirmed where the screen promises, against the honest
kernel of its problem as the record. An attack succeeds with KEEP, with ACCEPT where its answers are wrong or were not
computed in the window, or with a secret in its message.
"""

import argparse
import json
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT / "tests")]

from attacking import Attack, attacks  # noqa: E402
from guard_process import Guard  # noqa: E402

from kernelarc_guard.devices import default_parameters  # noqa: E402
from kernelarc_guard.protocol import Refusal, Result, Schedule  # noqa: E402

STAKE = 0.01 / 16
PARAMETERS = default_parameters("cpu").model_dump()
SCHEDULE = Schedule(start_seconds=20, call_seconds=5, memory_bytes=4 << 30).model_dump()


def main() -> None:
    """Run them and print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--only", nargs="*", default=[])
    parser.add_argument("--untimed", action="store_true", help="stop after correctness")
    parser.add_argument("--repeat", type=int, default=1)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    chosen = attacks(lambda name: not options.only or name in options.only)
    rows = []
    with tempfile.TemporaryDirectory() as cache:
        calibrations: dict[str, Any] = {}
        guard = Guard(Path(cache))
        for attack in chosen * options.repeat:
            begin = time.monotonic()
            try:
                row = judged(guard, attack, None if options.untimed else calibrations)
            except (AssertionError, BrokenPipeError) as error:
                # One guard for all, so that what an attack leaves behind would meet the next one.
                row = {"attack": attack.name, "op": "", "verdict": "guard lost", "reason": ""}
                row["detail"] = str(error)
                guard.process.kill()
                guard = Guard(Path(cache))
            rows.append(row | {"seconds": round(time.monotonic() - begin, 1)})
            print_row(rows[-1])
        guard.close()
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1) + "\n")


def judged(guard: Guard, attack: Attack, calibrations: dict[str, Any] | None) -> dict[str, Any]:
    """Take one attack as far as it comes; without calibrations to the end of correctness."""
    common = {
        "problem": attack.problem.model_dump(),
        "record": attack.record.model_dump(),
        "candidate": attack.candidate.model_dump(),
        "schedule": SCHEDULE,
        "parameters": PARAMETERS,
        "stake": STAKE,
    }
    seen = guard.answer("screen", **common, correctness_only=True)
    op = "correctness"
    if calibrations is not None and isinstance(seen, Result) and seen.verdict is None:
        key = attack.problem.digest + attack.record.digest
        if key not in calibrations:
            asked = {k: v for k, v in common.items() if k not in ("candidate", "stake")}
            found = guard.ask("calibrate", **asked, pairs=10)
            assert found.calibration is not None
            calibrations[key] = found.calibration.model_dump()
        op = "screen"
        seen = guard.answer("screen", **common, calibration=calibrations[key])
        if isinstance(seen, Result) and seen.verdict is None:
            op = "confirm"
            seen = guard.answer("confirm", **common, calibration=calibrations[key])
    return {"attack": attack.name, "op": op, **_told(seen)}


def _told(seen: Result | Refusal) -> dict[str, Any]:
    if isinstance(seen, Refusal):
        return {"verdict": "refused", "reason": seen.code, "stage": "", "detail": seen.error}
    speed = seen.decision.speedup if seen.decision else None
    return {
        "verdict": seen.verdict,
        "reason": seen.reason,
        "stage": seen.stage,
        "detail": seen.detail,
        "speedup": speed,
        "pairs": len(seen.pairs),
        "observations": seen.observations,
    }


def print_row(row: dict[str, Any]) -> None:
    """Print one line."""
    speed = f"{row['speedup']:.3f}x" if row.get("speedup") else ""
    print(
        f"{row['attack']:<30} {row['verdict']!s:<8} {row['reason']!s:<20} {row['op']:<12}"
        f"{speed:>9} {row['seconds']:>6.1f} s  {row['detail'][:150]!r}",
        *(f"\n{'':<31}note: {one[:150]}" for one in row.get("observations", [])),
        flush=True,
    )


if __name__ == "__main__":
    main()
