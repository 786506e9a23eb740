"""Run one target for a while with one seed; `benchmarks/fuzz.py` starts it.

python -m fuzz.worker --target NAME --seed N --seconds S
"""

import argparse
import random
import resource
import time

from fuzz import builders, channel, readers, runners, sources, wire
from fuzz.target import REAL, Target, run

_ADDRESS_SPACE = 16 << 30
"""Far more than any reader needs: who takes more is a failure."""
_BATCH = 50

TARGETS: list[Target] = [
    *readers.TARGETS,
    *sources.TARGETS,
    *channel.TARGETS,
    *wire.TARGETS,
    *builders.TARGETS,
    *runners.TARGETS,
]


def main() -> None:
    """Try batches of examples until the time is over; a failure's traceback ends it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--target", default="")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=10.0)
    asked = parser.parse_args()
    if asked.list:
        # Those with real processes are marked.
        print("\n".join("*" * (target.few < REAL) + target.name for target in TARGETS))
        return
    resource.setrlimit(resource.RLIMIT_AS, (_ADDRESS_SPACE, _ADDRESS_SPACE))
    target = next(one for one in TARGETS if one.name == asked.target)
    numbers = random.Random(asked.seed)
    tried, end = 0, time.monotonic() + asked.seconds
    light = target.few >= REAL
    size = _BATCH if light else 3
    try:
        while time.monotonic() < end:
            tried += run(target, size, numbers.getrandbits(32))
            size = min(2 * size, 2000) if light else size
    finally:
        wire.REAL.close()
        runners.REAL.close()
        print(f"examples {tried}")


if __name__ == "__main__":
    main()
