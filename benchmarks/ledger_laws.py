"""The ledger's laws for as long as wanted: tests/ledger_machine.py from one seed on.

python -m benchmarks.ledger_laws --hours 1 [--seed N] [--json FILE]

Prints its seed first and a line a minute. A law that breaks ends it with the shortest steps that break it;
`--seed` with the number printed last makes the same steps again.
"""

import argparse
import json
import secrets
import sys
import time
from pathlib import Path

sys.path[:0] = [str(Path(__file__).resolve().parents[1] / "tests")]

from ledger_machine import machines  # noqa: E402


def main() -> None:
    """Run until the time is over."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--hours", type=float, default=0.0)
    parser.add_argument("--seconds", type=float, default=0.0)
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument("--json", type=Path, default=None, help="write the result there")
    options = parser.parse_args()
    duration = options.hours * 3600 + options.seconds
    if duration <= 0:
        parser.error("give --hours or --seconds")
    first = secrets.randbelow(1 << 31) if options.seed is None else options.seed
    print(f"seed {first}", flush=True)
    start = said = time.monotonic()
    steps = seed = 0
    for seed, made in machines(first):
        steps += made
        now = time.monotonic()
        if now - start >= duration:
            break
        if now - said >= 60:
            said = now
            print(f"{now - start:8.0f} s  seed {seed}  {steps} steps", flush=True)
    seconds = round(time.monotonic() - start)
    result = {"seed": first, "last_seed": seed, "steps": steps, "seconds": seconds, "broken": 0}
    print(json.dumps(result))
    if options.json is not None:
        options.json.write_text(json.dumps(result, indent=2) + "\n")


if __name__ == "__main__":
    main()
