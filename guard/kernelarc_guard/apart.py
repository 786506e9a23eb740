"""Arms in separate lifetimes: does the gain stand when neither arm lives while the other is timed?

A candidate that slows whatever runs beside it looks fast in a side-by-side comparison. Before a KEEP
both arms are therefore also measured alone, in a few rounds; pure, so that `verify` decides again.
Rounds that could change nothing any more are not measured.
"""

import math
from collections.abc import Sequence
from statistics import fmean, stdev

from kernelarc_guard.ratios import student
from kernelarc_guard.rule import Calibration, Decision
from kernelarc_guard.words import times

ROUNDS = 5
"""At most so many rounds of record alone and candidate alone, in random order."""
LEVEL = 0.005
"""Chance that noise alone denies a KEEP whose gain is the proven one."""


def settled(values: Sequence[float], decision: Decision) -> bool:
    """Say whether, after these rounds (percent), no further one can lead to a contradiction.

    None can once a round has reached the gain's lower bound. With one of n values at the bound or above
    it Student's t of how far their mean lies below it is at most n - 1, all others being equal, and
    `LEVEL` asks for more of it than that: 63.7, 9.9, 5.8 and 4.6 for two to five rounds.
    """
    lower = decision.lower_percent
    return len(values) >= ROUNDS or lower is None or any(value >= lower for value in values)


def contradiction(
    values: Sequence[float], decision: Decision, calibration: Calibration
) -> str | None:
    """Return in a sentence how rounds (percent) contradict a proven gain, or None.

    They do where even their upper bound lies below the gain's lower bound: what they cannot resolve
    denies nothing.
    """
    if decision.lower_percent is None or len(values) < 2:
        return None
    mean, count = fmean(values), len(values)
    spread = max(stdev(values), calibration.sd_confirm)
    upper = mean + student(LEVEL, count - 1) * spread / math.sqrt(count)
    if upper >= decision.lower_percent:
        return None
    return (
        f"Side by side it was proven more than {times(decision.lower_percent)} the record's speed,"
        f" but with the arms in separate lifetimes it is {times(mean)} (at most {times(upper)},"
        f" {count} rounds): the gain does not stand alone."
    )
