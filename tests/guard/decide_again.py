"""Decide again from recorded pairs and print each decision as the guard writes it: one line of JSON.

Run by `test_decide_bytes` in several interpreters:

    python -I decide_again.py GUARD_FOLDER PAIRS.json
"""

import json
import sys
from pathlib import Path
from typing import Any


def main() -> None:
    """Print a line per recorded series, then one per recorded calibration."""
    guard, pairs = sys.argv[1:]
    sys.path.insert(0, guard)
    recorded = json.loads(Path(pairs).read_text(encoding="utf-8"))
    for case in recorded["series"]:
        print(_decision(case, recorded["calibrations"][case["calibration"]]))
    for case in recorded["nurseries"]:
        print(_calibration(case["blocks"]))


def _decision(case: dict[str, Any], noise: dict[str, Any]) -> str:
    from kernelarc_guard import decide

    parameters, calibration = decide.Parameters(), decide.Calibration.model_validate(noise)
    values = [decide.pair_value(blocks, case["weights"]) for blocks in case["pairs"]]
    if case["op"] == "screen":
        decision = decide.replay_screen(values, parameters, calibration, case["stake"])
    else:
        each = [decide.workload_values(blocks, len(case["weights"])) for blocks in case["pairs"]]
        decision = decide.replay_confirm(values, each, parameters, calibration, case["stake"])
    return decision.model_dump_json()


def _calibration(blocks: list[list[list[float]]]) -> str:
    from kernelarc_guard import decide

    return decide.calibrate_from(
        "cpu", "recorded", "2026-01-01T00:00:00Z", blocks, 0.5, 0.011, decide.Parameters()
    ).model_dump_json()


if __name__ == "__main__":
    main()
